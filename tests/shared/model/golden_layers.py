#!/usr/bin/env python3
"""Writes golden_layers.h: one step of a model with cross, dot, dropout and normalization layers and all activations.

As in golden.py, the forward pass is NumPy in complex128 and each derivative is a complex step of 1e-30 i. The formulas
are those of the papers: DCN-V2 (Wang et al. 2021, equations 1 and 2), DLRM (Naumov et al. 2019), GELU in its tanh form
(Hendrycks and Gimpel 2016). The mask of the dropout is computed with integers of Python from seed and batch id.

    python3 golden_layers.py > golden_layers.h
"""
import textwrap

import numpy as np

from complex_step import complexes, gradient, logistic

KEYS, DIM, RECORDS, RATE, SEED, BATCH = 4, 3, 6, 0.4, 11, (2, 5, 7)
MASK = (1 << 64) - 1
rng = np.random.default_rng(20210419)
single = lambda *shape: (0.4 * rng.normal(size=shape)).astype(np.float32)

a, b = rng.integers(0, KEYS, RECORDS), rng.integers(0, KEYS, RECORDS)
numbers = single(RECORDS, DIM)
label = (rng.random(RECORDS) < 0.5).astype(np.float32)
WIDTH = 3 * DIM
ACTIVATIONS = {
    "relu": lambda x: np.where(x.real > 0, x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "leaky_relu": lambda x: np.where(x.real > 0, x, 0.01 * x),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "tanh": np.tanh,
}
TOP = 3 * WIDTH + 3 + 4 * len(ACTIVATIONS)
# In the order of Graph::tables() and their members.
variables = {
    "emb/table": single(KEYS, DIM),
    "cross/0/kernel": single(WIDTH, WIDTH), "cross/0/bias": single(WIDTH),
    "cross/1/kernel": single(WIDTH, WIDTH), "cross/1/bias": single(WIDTH),
    "low/0/down": single(WIDTH, 2), "low/0/kernel": single(2, WIDTH), "low/0/bias": single(WIDTH),
}
variables["norm/scale"] = single(WIDTH)
variables["norm/shift"] = single(WIDTH)
for name in ACTIVATIONS:
    variables[f"d_{name}/0/kernel"] = single(WIDTH, 2)
    variables[f"d_{name}/0/bias"] = single(2)
variables["top/0/kernel"] = single(TOP, 1)
variables["top/0/bias"] = single(1)


def mix64(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def hash_combine(seed, value):
    return mix64(seed ^ mix64(value))


def hash_string(text, seed):  # of fewer than 8 bytes, with a seed other than 0
    size = mix64(seed ^ (len(text) * 0xFF51AFD7ED558CCD & MASK))
    return mix64(size ^ int.from_bytes(text.encode(), "little"))


def word(column, seed):
    x = (column * 0x9E3779B9 + seed) & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    x ^= x >> 15
    x ^= seed >> 32
    x = x * 0x846CA68B & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x7FEB352D & 0xFFFFFFFF
    return x ^ (x >> 15)


epoch, shard, batch = BATCH
seed = hash_combine(hash_string("drop", mix64(SEED)), hash_combine(epoch << 32 | shard, batch))
threshold = int(float(np.float32(RATE)) * 2**32)
mask = np.array([[word(j, hash_combine(seed, r)) >= threshold for j in range(WIDTH)] for r in range(RECORDS)])


def forward(v, training):
    x0 = np.concatenate([v["emb/table"][a], v["emb/table"][b], numbers], axis=1)
    cross = x0
    for i in range(2):
        cross = x0 * (cross @ v[f"cross/{i}/kernel"] + v[f"cross/{i}/bias"]) + cross
    if training:
        cross = np.where(mask, cross, 0) / (1 - float(np.float32(RATE)))
    low = x0 * (x0 @ v["low/0/down"] @ v["low/0/kernel"] + v["low/0/bias"]) + x0
    e = [x0[:, i * DIM:(i + 1) * DIM] for i in range(3)]
    dot = [np.sum(e[i] * e[j], axis=1, keepdims=True) for i in range(3) for j in range(i)]
    centered = x0 - np.mean(x0, axis=1, keepdims=True)
    norm = centered / np.sqrt(np.mean(centered**2, axis=1, keepdims=True) + 1e-5)
    inputs = [cross, low] + dot + [norm * (1 + v["norm/scale"]) + v["norm/shift"]]
    for name, f in ACTIVATIONS.items():
        z = x0 @ v[f"d_{name}/0/kernel"] + v[f"d_{name}/0/bias"]
        inputs += [f(z), f(f(z))]
    z = (np.concatenate(inputs, axis=1) @ v["top/0/kernel"] + v["top/0/bias"])[:, 0]
    return logistic(z, label)


def floats(x):
    texts = (f"{float(v):.9g}" for v in np.asarray(x).reshape(-1))
    text = "{" + ", ".join(t + ("F" if "." in t or "e" in t else ".0F") for t in texts) + "}"
    return text if len(text) < 60 else "\n" + textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="    ")


def show(text):
    print("\n".join(line.rstrip() for line in text.split("\n")))


single_values = complexes(variables)
loss_of = lambda v: forward(v, True)[0]
loss, predictions = forward(single_values, True)[0], forward(single_values, False)[1]
print("// Made by golden_layers.py: one step, by complex-step differentiation in float64.")
print("#pragma once\n\n#include <cstdint>\n#include <vector>\n")
print("// clang-format off\nnamespace golden_layers {\n")
print(f"const std::vector<uint32_t> kKeysA = {{{', '.join(map(str, a))}}};")
print(f"const std::vector<uint32_t> kKeysB = {{{', '.join(map(str, b))}}};")
show(f"const std::vector<float> kNumbers = {floats(numbers)};")
show(f"const std::vector<float> kLabels = {floats(label)};")
print(f"const double kLoss = {float(loss.real)!r};  // of the training step")
show(f"const std::vector<float> kPredictions = {floats(predictions.real)};  // without dropout")
print("struct Variable { const char* name; std::vector<float> values, gradient; };")
print("const std::vector<Variable> kVariables = {")
for name in variables:
    show(f'  {{"{name}",\n   {floats(variables[name])},\n   {floats(gradient(loss_of, variables, name))}}},')
print("};\n\n}  // namespace golden_layers\n// clang-format on")
