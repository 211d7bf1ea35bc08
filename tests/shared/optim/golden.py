#!/usr/bin/env python3
"""Reference values for tests/shared/optim/optimizer_test.cc:

    python3 golden.py > golden.inc && python3 golden.py rows > golden_rows.inc
    python3 golden.py averages > golden_averages.inc

The formulas of the papers named in shared/optim/*.h, in float64 with plain Python (no library of ours, no NumPy needed).
Where torch can be imported, SGD, momentum, Adagrad and RMSProp are checked against torch.optim as well.
Three weights take five gradients each; after every step: weights, slot 0, slot 1.
With `rows`: the optimizers with one slot for each row, checked against torch operations as well. A row takes 100
gradients; after steps 1, 10 and 100: weights, slot of the row.
With `averages`: optimizers with averages of the weights. Rows take the same gradients; after the same steps: weights,
averages, number of updates. The averages are computed as sums of all weights so far with their factors, not recursively.
"""
import math
import sys

W0 = [0.5, -0.25, 0.0]
G = [[0.3, -0.7, 0.05], [-0.2, 0.4, 0.0], [1.5, -0.01, -0.3], [0.0, 0.6, 2.0], [-0.9, 0.1, 0.25]]


def sgd(w, s, g, t, c):
    return w - c["lr"] * g, s


def momentum(w, s, g, t, c):
    v = c["mu"] * s[0] + g
    return w - c["lr"] * (g + c["mu"] * v if c["nesterov"] else v), [v]


def adagrad(w, s, g, t, c):
    a = s[0] + g * g
    return w - c["lr"] * g / (math.sqrt(a) + c["eps"]), [a]


def adam(w, s, g, t, c):
    m = c["b1"] * s[0] + (1 - c["b1"]) * g
    v = c["b2"] * s[1] + (1 - c["b2"]) * g * g
    rate = c["lr"] * math.sqrt(1 - c["b2"] ** t) / (1 - c["b1"] ** t)
    return w - rate * m / (math.sqrt(v) + c["eps"]), [m, v]


def rmsprop(w, s, g, t, c):
    v = c["rho"] * s[0] + (1 - c["rho"]) * g * g
    return w - c["lr"] * g / (math.sqrt(v) + c["eps"]), [v]


def adamw(w, s, g, t, c):
    return adam(w - c["lr"] * c["decay"] * w, s, g, t, c)


def ftrl(w, s, g, t, c):
    z, n = s
    sigma = (math.sqrt(n + g * g) - math.sqrt(n)) / c["lr"]
    z += g - sigma * w
    n += g * g
    if abs(z) <= c["l1"]:
        return 0.0, [z, n]
    return -(z - math.copysign(c["l1"], z)) / ((c["beta"] + math.sqrt(n)) / c["lr"] + c["l2"]), [z, n]


def ftrl_start(w, c):
    n = c["n0"]
    if w == 0:
        return [0.0, n]
    return [-w * ((c["beta"] + math.sqrt(n)) / c["lr"] + c["l2"]) - math.copysign(c["l1"], w), n]


CASES = [
    ("kSgd, .learning_rate = 0.1F", sgd, dict(lr=0.1), lambda w, c: []),
    ("kMomentum, .learning_rate = 0.1F, .momentum = 0.8F", momentum, dict(lr=0.1, mu=0.8, nesterov=False), lambda w, c: [0.0]),
    ("kMomentum, .learning_rate = 0.1F, .momentum = 0.8F, .nesterov = true", momentum, dict(lr=0.1, mu=0.8, nesterov=True), lambda w, c: [0.0]),
    ("kAdagrad, .learning_rate = 0.5F, .initial_accumulator = 0.1F, .epsilon = 1e-7F", adagrad, dict(lr=0.5, eps=1e-7), lambda w, c: [0.1]),
    ("kAdam, .learning_rate = 0.01F, .epsilon = 1e-7F, .beta1 = 0.9F, .beta2 = 0.99F", adam, dict(lr=0.01, b1=0.9, b2=0.99, eps=1e-7), lambda w, c: [0.0, 0.0]),
    ("kFtrl, .learning_rate = 0.2F, .initial_accumulator = 0.1F, .l1 = 0.4F, .l2 = 0.3F, .beta = 1.0F", ftrl, dict(lr=0.2, n0=0.1, l1=0.4, l2=0.3, beta=1.0), ftrl_start),
    ("kFtrl, .learning_rate = 0.2F, .initial_accumulator = 0.0F, .beta = 0.0F", ftrl, dict(lr=0.2, n0=0.0, l1=0.0, l2=0.0, beta=0.0), ftrl_start),
    ("kRmsProp, .learning_rate = 0.05F, .epsilon = 1e-7F, .rho = 0.8F", rmsprop, dict(lr=0.05, rho=0.8, eps=1e-7), lambda w, c: [0.0]),
    ("kAdamW, .learning_rate = 0.01F, .epsilon = 1e-7F, .beta1 = 0.9F, .beta2 = 0.99F, .weight_decay = 0.3F", adamw,
     dict(lr=0.01, b1=0.9, b2=0.99, eps=1e-7, decay=0.3), lambda w, c: [0.0, 0.0]),
]


ROW_CASES = [
    ("kRowwiseAdagrad, .learning_rate = 0.5F, .initial_accumulator = 0.1F, .epsilon = 1e-3F", dict(lr=0.5, eps=1e-3, a0=0.1)),
    ("kRowwiseAdagrad, .learning_rate = 0.05F, .initial_accumulator = 4.0F, .epsilon = 0.0F", dict(lr=0.05, eps=0.0, a0=4.0)),
]
ROW_DIMS = (1, 3, 16, 37)
ROW_STEPS = (1, 10, 100)


def row_gradient(step, i):
    return (step * 7 + i * 5 + step * i) % 23 / 16 - 0.6875


def run_row(case, dim):
    c = case[1]
    w, a = [W0[i % 3] for i in range(dim)], c["a0"]
    for step in range(1, ROW_STEPS[-1] + 1):
        g = [row_gradient(step, i) for i in range(dim)]
        a += math.fsum(x * x for x in g) / dim
        w = [x - c["lr"] * y / (math.sqrt(a) + c["eps"]) for x, y in zip(w, g)]
        yield step, w, a


def torch_check_rows():
    """Compares with the sparse update of DLRM's RWSAdagrad."""
    try:
        import torch
    except ImportError:
        return
    for case in ROW_CASES:
        for dim in ROW_DIMS:
            c = case[1]
            p = torch.tensor([[9.0] * dim, [W0[i % 3] for i in range(dim)]], dtype=torch.float64)
            moment = torch.full([2], c["a0"], dtype=torch.float64)
            for step, w, a in run_row(case, dim):
                g = torch.tensor([[row_gradient(step, i) for i in range(dim)]], dtype=torch.float64)
                mean = torch.sparse_coo_tensor([[1]], g.pow(2).mean(dim=1), [2])
                moment.add_(mean)
                std = moment.sparse_mask(mean.coalesce())._values().sqrt().add(c["eps"])
                p.add_(torch.sparse_coo_tensor([[1]], g / std.view(-1, 1), [2, dim]), alpha=-c["lr"])
                want = torch.tensor(w, dtype=torch.float64)
                assert torch.allclose(p[1], want, rtol=1e-12) and abs(float(moment[1]) - a) < 1e-12, case[0]
            assert (p[0] == 9).all() and moment[0] == c["a0"], case[0]


def print_rows():
    torch_check_rows()
    print("// Made by golden.py; do not edit.")
    for case in ROW_CASES:
        print("{{.type = OptimizerType::%s},\n {" % case[0])
        for dim in ROW_DIMS:
            for step, w, a in run_row(case, dim):
                if step in ROW_STEPS:
                    print("  {%d, %d, {" % (dim, step) + ", ".join("%.9g" % x for x in w + [a]) + "}},")
        print(" }},")


AVERAGE_CASES = [(0, 0.9), (4, 0.99), (5, 0.95), (0, 0.5)]


def run_averages(case, decay, dim):
    _, rule, c, start = case
    w = [W0[i % 3] for i in range(dim)]
    slots = [start(x, c) for x in w]
    history, rates = [list(w)], [1.0]
    for step in range(1, ROW_STEPS[-1] + 1):
        for i in range(dim):
            w[i], slots[i] = rule(w[i], slots[i], row_gradient(step, i), step, c)
        rate = 1 - min(decay, (1 + step) / (10 + step))
        rates = [x * (1 - rate) for x in rates] + [rate]
        history.append(list(w))
        yield step, list(w), [math.fsum(r * h[i] for r, h in zip(rates, history)) for i in range(dim)]


def print_averages():
    print("// Made by golden.py; do not edit.")
    for index, decay in AVERAGE_CASES:
        print("{{.type = OptimizerType::%s, .ema = %sF},\n {" % (CASES[index][0], decay))
        for dim in ROW_DIMS:
            for step, w, e in run_averages(CASES[index], decay, dim):
                if step in ROW_STEPS:
                    print("  {%d, %d, {" % (dim, step) + ", ".join("%.9g" % x for x in w + e + [step]) + "}},")
        print(" }},")


def torch_check():
    try:
        import torch
    except ImportError:
        return
    for index, make in ((0, lambda p: torch.optim.SGD(p, lr=0.1)),
                        (1, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8)),
                        (2, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True)),
                        (3, lambda p: torch.optim.Adagrad(p, lr=0.5, initial_accumulator_value=0.1, eps=1e-7)),
                        (7, lambda p: torch.optim.RMSprop(p, lr=0.05, alpha=0.8, eps=1e-7))):
        p = torch.tensor(W0, dtype=torch.float64, requires_grad=True)
        optimizer = make([p])
        for g, want in zip(G, run(CASES[index])):
            p.grad = torch.tensor(g, dtype=torch.float64)
            optimizer.step()
            assert torch.allclose(p.detach(), torch.tensor(want[0], dtype=torch.float64)), CASES[index][0]


def run(case):
    _, rule, c, start = case
    w, slots = list(W0), [start(x, c) for x in W0]
    steps = []
    for t, g in enumerate(G, 1):
        for i in range(len(w)):
            w[i], slots[i] = rule(w[i], slots[i], g[i], t, c)
        steps.append((list(w), [[s[k] for s in slots] for k in range(len(slots[0]))]))
    return steps


def main():
    if sys.argv[1:] == ["rows"]:
        return print_rows()
    if sys.argv[1:] == ["averages"]:
        return print_averages()
    torch_check()
    print("// Made by golden.py; do not edit.")
    for case in CASES:
        print("{{.type = OptimizerType::%s},\n {" % case[0])
        for w, slots in run(case):
            print("  {" + ", ".join("%.9g" % x for row in [w] + slots for x in row) + "},")
        print(" }},")


main()
