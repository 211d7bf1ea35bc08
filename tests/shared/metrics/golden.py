#!/usr/bin/env python3
"""Reference values for ranking_test.cc:  python3 golden.py > golden.inc

The metrics are those of scikit-learn. Logits are multiples of 1/64, so each of them has its own
bucket of the AUC histogram, and many of them repeat.
"""
import random

from sklearn.metrics import (average_precision_score, f1_score, precision_score, r2_score,
                             recall_score, roc_auc_score)


def lines(values, per_line=16):
    rows = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    return ",\n     ".join(", ".join(str(v) for v in row) for row in rows)


def binary(name, count, spread, shift):
    rng = random.Random(name)
    logits = [max(-400, min(400, round(64 * rng.gauss(shift, spread)))) for _ in range(count)]
    labels = [1 if rng.gauss(z / 64, 1.5) > 0.8 else 0 for z in logits]
    predicted = [1 if z >= 0 else 0 for z in logits]
    figures = [roc_auc_score(labels, logits), average_precision_score(labels, logits),
               precision_score(labels, predicted), recall_score(labels, predicted),
               f1_score(labels, predicted)]
    print(f'    {{"{name}",\n     {{{lines(logits)}}},\n     {{{lines(labels, 30)}}},')
    print(f"     {{{lines([float(f) for f in figures], 3)}}}}},")


def regression(name, count, mean, spread, noise, weighted):
    rng = random.Random(name)
    targets = [round(rng.gauss(mean, spread), 2) for _ in range(count)]
    predictions = [round(t + rng.gauss(noise / 3, noise), 2) for t in targets]
    weights = [rng.choice([0.5, 1.0, 2.0]) if weighted else 1.0 for _ in range(count)]
    r2 = r2_score(targets, predictions, sample_weight=weights)
    print(f'    {{"{name}",\n     {{{lines(targets, 10)}}},\n     {{{lines(predictions, 10)}}},')
    print(f"     {{{lines(weights, 18)}}},\n     {r2!r}}},")


print("// Written by golden.py.")
print("const BinaryCase kBinaryCases[] = {")
binary("spread", 200, 1.5, 0.2)
binary("many ties", 200, 0.05, -0.02)
binary("few positives", 200, 1.0, -1.5)
print("};\nconst NumberCase kNumberCases[] = {")
regression("good", 60, 10, 4, 1, False)
regression("weights", 60, -3, 2, 1.5, True)
regression("worse than the mean", 60, 100, 1, 3, False)
print("};")
