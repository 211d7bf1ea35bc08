#!/usr/bin/env python3
"""Reference values for schedule_test.cc:  python3 schedule_golden.py > schedule_golden.inc

Factors of steps 1 to 100 in float64 with plain Python, written from the definitions in the
documentation of Keras and PyTorch, and stepwise where a definition is recursive. Where torch can be
imported, step, exponential, polynomial and cosine without a warm-up are checked against
torch.optim.lr_scheduler.
"""
import math

STEPS = 100


def linear_warmup(step, warmup):
    return min(1.0, step / warmup) if warmup else 1.0


def constant(c):
    return [linear_warmup(step, c["warmup"]) for step in range(1, STEPS + 1)]


def after_warmup(c, decayed):
    """Joins the warm-up and a list of factors whose element 0 is at the peak."""
    peak = max(c["warmup"], 1)
    return [step / peak if step < peak else decayed[step - peak] for step in range(1, STEPS + 1)]


def step(c):
    factors, rate = [], 1.0
    for n in range(STEPS):
        if n > 0 and n % c["decay"] == 0:
            rate *= c["rate"]
        factors.append(rate)
    return after_warmup(c, factors)


def exponential(c):
    per_step = c["rate"] ** (1.0 / c["decay"])
    factors = [1.0]
    for _ in range(STEPS):
        factors.append(factors[-1] * per_step)
    return after_warmup(c, factors)


def polynomial(c):
    factors = []
    for n in range(STEPS):
        n = min(n, c["decay"])
        factors.append((1.0 - c["end"]) * (1.0 - n / c["decay"]) ** c["power"] + c["end"])
    return after_warmup(c, factors)


def cosine(c):
    factors = []
    for n in range(STEPS):
        n = min(n, c["decay"])
        decayed = 0.5 * (1.0 + math.cos(math.pi * n / c["decay"]))
        factors.append((1.0 - c["end"]) * decayed + c["end"])
    return after_warmup(c, factors)


def inverse_sqrt(c):
    if c["decay"] == 0:  # Vaswani et al. 2017: min(step^-0.5, step warmup^-1.5), scaled to a peak of 1
        w = c["warmup"]
        return [min(s ** -0.5, s * w ** -1.5) * math.sqrt(w) for s in range(1, STEPS + 1)]
    return after_warmup(c, [(1.0 + n / c["decay"]) ** -0.5 for n in range(STEPS)])


def plateau(c):
    rate = 1.0
    for _ in range(c["reductions"]):
        rate = max(rate * c["factor"], c["min"])  # as ReduceLROnPlateau does at each reduction
    return after_warmup(c, [rate] * STEPS) if c["warmup"] == 0 else [
        linear_warmup(s, c["warmup"]) * rate for s in range(1, STEPS + 1)]


CASES = [
    (".type = ScheduleType::kConstant", 0, constant, dict(warmup=0)),
    (".type = ScheduleType::kConstant, .warmup_steps = 30", 0, constant, dict(warmup=30)),
    (".type = ScheduleType::kStep, .decay_steps = 20, .decay_rate = 0.5F", 0, step, dict(warmup=0, decay=20, rate=0.5)),
    (".type = ScheduleType::kStep, .warmup_steps = 10, .decay_steps = 25, .decay_rate = 0.25F", 0, step, dict(warmup=10, decay=25, rate=0.25)),
    (".type = ScheduleType::kExponential, .decay_steps = 40, .decay_rate = 0.5F", 0, exponential, dict(warmup=0, decay=40, rate=0.5)),
    (".type = ScheduleType::kExponential, .warmup_steps = 7, .decay_steps = 40, .decay_rate = 0.125F", 0, exponential, dict(warmup=7, decay=40, rate=0.125)),
    (".type = ScheduleType::kPolynomial, .decay_steps = 80", 0, polynomial, dict(warmup=0, decay=80, power=1.0, end=0.0)),
    (".type = ScheduleType::kPolynomial, .warmup_steps = 5, .decay_steps = 60, .power = 2.0F, .end = 0.125F", 0, polynomial, dict(warmup=5, decay=60, power=2.0, end=0.125)),
    (".type = ScheduleType::kCosine, .decay_steps = 90", 0, cosine, dict(warmup=0, decay=90, end=0.0)),
    (".type = ScheduleType::kCosine, .warmup_steps = 20, .decay_steps = 50, .end = 0.25F", 0, cosine, dict(warmup=20, decay=50, end=0.25)),
    (".type = ScheduleType::kInverseSqrt, .warmup_steps = 16", 0, inverse_sqrt, dict(warmup=16, decay=0)),
    (".type = ScheduleType::kInverseSqrt, .warmup_steps = 4, .decay_steps = 32", 0, inverse_sqrt, dict(warmup=4, decay=32)),
    (".type = ScheduleType::kPlateau, .factor = 0.5F, .min = 0.0625F", 0, plateau, dict(warmup=0, reductions=0, factor=0.5, min=0.0625)),
    (".type = ScheduleType::kPlateau, .warmup_steps = 8, .factor = 0.5F, .min = 0.0625F", 3, plateau, dict(warmup=8, reductions=3, factor=0.5, min=0.0625)),
    (".type = ScheduleType::kPlateau, .factor = 0.25F, .min = 0.03125F", 5, plateau, dict(warmup=0, reductions=5, factor=0.25, min=0.03125)),
]


def torch_check():
    try:
        import torch
    except ImportError:
        return
    schedulers = torch.optim.lr_scheduler
    make = {step: lambda o, c: schedulers.StepLR(o, c["decay"], c["rate"]),
            exponential: lambda o, c: schedulers.ExponentialLR(o, c["rate"] ** (1 / c["decay"])),
            polynomial: lambda o, c: schedulers.PolynomialLR(o, c["decay"], c["power"]) if c["end"] == 0 else None,
            cosine: lambda o, c: schedulers.CosineAnnealingLR(o, c["decay"], c["end"])}
    for _, _, function, c in CASES:
        if c["warmup"] or function not in make:
            continue
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        scheduler = make[function](optimizer, c)
        if scheduler is None:
            continue
        for want in function(c)[:c["decay"]]:  # CosineAnnealingLR rises again after its decay
            assert math.isclose(optimizer.param_groups[0]["lr"], want, rel_tol=1e-9, abs_tol=1e-12), function
            optimizer.step()
            scheduler.step()


def main():
    torch_check()
    print("// Made by schedule_golden.py; do not edit.")
    for spec, reductions, function, c in CASES:
        factors = function(c)
        assert len(factors) == STEPS
        print("{{%s}, %d, {" % (spec, reductions))
        for i in range(0, STEPS, 5):
            print("  " + ", ".join("%.15g" % f for f in factors[i:i + 5]) + ("," if i + 5 < STEPS else "}},"))


main()
