#!/usr/bin/env python3
"""Reference values for error_sums_test.cc:  python3 error_golden.py > error_golden.inc

The metrics are those of scikit-learn. All values are multiples of 1/64, so a float holds them exactly. The scores of one
record all differ, because scikit-learn ranks equal scores by the higher class.
"""
import random

from sklearn.metrics import mean_absolute_error, top_k_accuracy_score


def lines(values, per_line=16):
    rows = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    return ",\n      ".join(", ".join(str(v) for v in row) for row in rows)


def weights_of(rng, count, weighted):
    return [rng.choice([0.5, 1.0, 2.0]) if weighted else 1.0 for _ in range(count)]


def numbers(name, count, width, weighted):
    rng = random.Random(name)
    targets = [rng.randrange(-640, 640) / 64 for _ in range(count * width)]
    values = [t + rng.randrange(-200, 300) / 64 for t in targets]
    weights = weights_of(rng, count, weighted)
    rows = [[v[i:i + width] for i in range(0, len(v), width)] for v in (targets, values)]
    mae = float(mean_absolute_error(*rows, sample_weight=weights))
    print(f'    {{"{name}", {width},\n     {{{lines(values, 8)}}},\n     {{{lines(targets, 8)}}},')
    print(f"     {{{lines(weights)}}},\n     {{{mae!r}}}}},")


def classes(name, count, width, weighted):
    rng = random.Random(name)
    scores = []
    for _ in range(count):
        scores += [x / 64 for x in rng.sample(range(-200, 200), width)]
    targets = [rng.randrange(width) for _ in range(count)]
    weights = weights_of(rng, count, weighted)
    rows = [scores[i:i + width] for i in range(0, len(scores), width)]
    accuracies = [float(top_k_accuracy_score(targets, rows, k=k, sample_weight=weights, labels=range(width)))
                  for k in range(1, width)]
    print(f'    {{"{name}", {width},\n     {{{lines(scores, 8)}}},\n     {{{lines(targets)}}},')
    print(f"     {{{lines(weights)}}},\n     {{{lines(accuracies, 3)}}}}},")


print("// Written by error_golden.py.")
print("const Case kNumbers[] = {")
numbers("one column", 30, 1, False)
numbers("one column with weights", 30, 1, True)
numbers("three columns with weights", 12, 3, True)
print("};\nconst Case kClasses[] = {")
classes("seven classes", 40, 7, False)
classes("seven classes with weights", 40, 7, True)
print("};")
