"""The effect on a training job of clients without a key."""
from .frame import at_least, at_most, is_true, row
from .recovery import fault_case

ROW = "hardening-hostile"


@row(ROW, "clients without a key attack all ports of a job, beside an equal job without them")
def hostile(lab):
    """Runs both jobs at the same time on this machine, so that other load affects both."""
    found = fault_case(lab, ROW, "hostile-rate", "--seconds", 600 if lab.full else 60, timeout_s=7200)
    attacks = sum(found["attacks"].values())
    yield at_least("rate, of the job without", found["rate_share"], 0.9, note=f"{attacks:,} connections in {found['seconds_attacked']:.0f} s: random bytes, "
                   "half greetings, claims, endless and empty frames, valid envelopes with random bodies, idle ones")
    yield at_most("peak memory of a process, above the other job's", found["rss_mb_more"], 64, " MB")
    yield at_most("logs and events, above the other job's", found["log_mb_per_minute"], 1, " MB/min")
    yield is_true("every weight of both counter models", True, f"all {found['epochs']}", found["weights"], f"{found['records']:,} weights; accounts balance")
    idle = fault_case(lab, ROW, "descriptors", timeout_s=600)
    yield is_true("checkpoints beside 3,000 idle connections, 1,024 descriptors", idle["published"] > 1, "written", f"{idle['published']} written",
                  f"descriptors in use: {', '.join(f'{name} {count}' for name, count in idle['descriptors_used'].items())}")
