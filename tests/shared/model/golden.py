#!/usr/bin/env python3
"""Writes golden_wide_deep.h: one Wide & Deep step computed without any backward pass.

The forward pass is NumPy in complex128; each derivative is the imaginary part of the loss with the weight moved by
1e-30 i (complex-step differentiation), exact to rounding and independent of the C++ code's formulas.

    python3 golden.py > golden_wide_deep.h
"""
import numpy as np

from complex_step import complexes, gradient, logistic

KEYS, DIM, RECORDS = 4, 3, 5
rng = np.random.default_rng(20240229)
single = lambda *shape: rng.normal(size=shape).astype(np.float32)

a, b = rng.integers(0, KEYS, RECORDS), rng.integers(0, KEYS, RECORDS)
numbers = single(RECORDS, 2)
label = (rng.random(RECORDS) < 0.5).astype(np.float32)
# In the order of Graph::tables() and their members.
variables = {
    "wide/weights": single(KEYS, 1), "emb/table": single(KEYS, DIM),
    "wide/bias": single(1), "wide/kernel": single(2, 1),
    "tower/0/kernel": single(2 * DIM + 2, 4), "tower/0/bias": single(4),
    "tower/1/kernel": single(4, 1), "tower/1/bias": single(1),
}


def forward(v):
    wide = v["wide/weights"][a] + v["wide/weights"][b] + numbers @ v["wide/kernel"] + v["wide/bias"]
    x = np.concatenate([v["emb/table"][a], v["emb/table"][b], numbers], axis=1)
    hidden = x @ v["tower/0/kernel"] + v["tower/0/bias"]
    hidden = np.where(hidden.real > 0, hidden, 0)
    z = (wide + hidden @ v["tower/1/kernel"] + v["tower/1/bias"])[:, 0]
    return logistic(z, label)


def floats(x):
    return "{" + ", ".join(f"{float(v):.9g}F" if "." in f"{float(v):.9g}" or "e" in f"{float(v):.9g}"
                           else f"{float(v):.9g}.0F" for v in np.asarray(x).reshape(-1)) + "}"


loss_of = lambda v: forward(v)[0]
loss, predictions = forward(complexes(variables))
print("// Made by golden.py: one step of Wide & Deep, by complex-step differentiation in float64.")
print("#pragma once\n\n#include <cstdint>\n#include <vector>\n")
print("// clang-format off\nnamespace golden {\n")
print(f"const std::vector<uint32_t> kKeysA = {{{', '.join(map(str, a))}}};")
print(f"const std::vector<uint32_t> kKeysB = {{{', '.join(map(str, b))}}};")
print(f"const std::vector<float> kNumbers = {floats(numbers)};")
print(f"const std::vector<float> kLabels = {floats(label)};")
print(f"const double kLoss = {float(loss.real)!r};")
print(f"const std::vector<float> kPredictions = {floats(predictions.real)};")
print("struct Variable { const char* name; std::vector<float> values, gradient; };")
print("const std::vector<Variable> kVariables = {")
for name in variables:
    print(f'  {{"{name}",\n   {floats(variables[name])},\n   {floats(gradient(loss_of, variables, name))}}},')
print("};\n\n}  // namespace golden\n// clang-format on")
