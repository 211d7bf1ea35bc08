"""The cost of keys: compares the rate of a job over tcp with keys (CURVE) and with --insecure."""
from .frame import at_least, figure, median, row
from .lab import CHECKOUT

ROW = "hardening-curve"
SHARE = 0.65  # required share of the rate with --insecure
JOBS = {512: "synthetic-wide-deep-512.toml", 4096: "synthetic-wide-deep-4096.toml"}


def _rate(lab, job, data, insecure):
    """Trains with 2 ps and 2 workers. Returns examples/s, and CPU microseconds of all processes per example."""
    settings = {"eval.source": "[]", "cluster.ps": 2, "cluster.workers": 2}
    summary = lab.train_by_hand(ROW, CHECKOUT / "docs/examples" / job, settings, insecure, {"DOWNPOUR_SYNTH": str(data)})
    cpu_s = sum(process["cpu_seconds"] for process in summary["processes"])
    return summary["records"] / summary["train_seconds"], cpu_s / summary["records"] * 1e6


@row(ROW, "Wide & Deep over tcp, 2 ps + 2 workers: the rate with keys, of the rate with --insecure")
def curve(lab):
    """Runs both variants in turns, so that other load affects both. The median of the shares counts."""
    train, _ = lab.synth(ROW, "train.tsv", 4_000_000 if lab.full else 1_000_000)
    for batch, job in JOBS.items():
        turns = []
        for _ in range(5):
            plain = _rate(lab, job, train.parent, True)
            turns.append((_rate(lab, job, train.parent, False), plain))
        shares = sorted(keyed[0] / plain[0] for keyed, plain in turns)
        rates, cpu = ([median([side[i] for side in sides]) for sides in zip(*turns)] for i in range(2))
        yield at_least(f"batch {batch}: examples/s with keys, of --insecure", median(shares), SHARE, " x",
                       f"{figure(rates[0])} of {figure(rates[1])}; {cpu[0]:.1f} and {cpu[1]:.1f} CPU us an example; medians of 5 turns, "
                       f"shares {figure(shares[0])} to {figure(shares[-1])}")
