#!/usr/bin/env python3
"""Reference values for groups_test.cc:  python3 groups_golden.py > groups_golden.inc

GAUC is the mean of roc_auc_score over the groups with both classes, weighted by their records (Zhu et al. 2017). NDCG is
the mean of ndcg_score over the groups with a positive record. Scores are multiples of 1/16, so many are equal.
"""
import random

import numpy as np
from sklearn.metrics import ndcg_score, roc_auc_score


def lines(values, per_line=20):
    rows = [values[i:i + per_line] for i in range(0, len(values), per_line)]
    return ",\n     ".join(", ".join(str(v) for v in row) for row in rows)


def case(name, groups, most, rate, k):
    rng = random.Random(name)
    records = []
    for group in range(groups):
        for _ in range(rng.randint(1, most)):
            label = int(rng.random() < rate)
            records.append((group, round(16 * rng.gauss(0.5 * label, 0.7)), label))
    rng.shuffle(records)
    aucs, weights, ndcgs = [], [], []
    for group in range(groups):
        scores = [s for g, s, _ in records if g == group]
        labels = [y for g, _, y in records if g == group]
        if 0 < sum(labels) < len(labels):
            aucs.append(roc_auc_score(labels, scores))
            weights.append(len(labels))
        if sum(labels) > 0:  # ndcg_score refuses a single record, whose NDCG is 1
            ndcgs.append(ndcg_score([labels], [scores], k=k) if len(labels) > 1 else 1.0)
    figures = [float(np.average(aucs, weights=weights)), float(np.mean(ndcgs))]
    columns = [lines([r[i] for r in records]) for i in range(3)]
    print(f'    {{"{name}", {k},\n     {{{columns[0]}}},\n     {{{columns[1]}}},\n     {{{columns[2]}}},')
    print(f"     {figures[0]!r}, {figures[1]!r}}},")


print("// Written by groups_golden.py.")
print("const GroupCase kGroupCases[] = {")
case("small groups", 40, 6, 0.3, 10)
case("large groups", 6, 60, 0.4, 10)
case("one place", 30, 8, 0.5, 1)
print("};")
