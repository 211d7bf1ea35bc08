#!/usr/bin/env python3
"""Reference values for negatives_test.cc:  python3 negatives_golden.py > negatives_golden.inc

Losses and derivatives of records with three negatives each, in float64. The derivatives are complex steps
(complex_step.py), which need no formula of a gradient.
"""
import numpy as np

from complex_step import complexes, gradient

RECORDS, GROUP = 4, 4
rng = np.random.default_rng(2009)
scores = (rng.integers(-320, 320, (RECORDS, GROUP)) / 64).astype(np.float64)  # a float holds them exactly
weights = np.array([1, 0.5, 2, 0])


def bpr(v):
    s = v["scores"]
    return np.sum(weights * np.mean(np.log(1 + np.exp(-(s[:, :1] - s[:, 1:]))), axis=1))


def sampled_softmax(v):
    s = v["scores"]
    return np.sum(weights * (np.log(np.sum(np.exp(s), axis=1)) - s[:, 0]))


def row(values):
    return "{" + ", ".join(repr(float(x)) for x in np.asarray(values).reshape(-1)) + "}"


print("// Written by negatives_golden.py.")
print("// clang-format off")
print(f"const std::vector<double> kScores = {row(scores)};")
print(f"const std::vector<double> kWeights = {row(np.repeat(weights, GROUP))};")
print("const LossCase kLossCases[] = {")
for name, loss in (("bpr", bpr), ("sampled_softmax", sampled_softmax)):
    variables = {"scores": scores}
    print(f'    {{"{name}", {float(loss(complexes(variables)).real)!r},\n     {row(gradient(loss, variables, "scores"))}}},')
print("};")
print("// clang-format on")
