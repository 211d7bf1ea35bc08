"""Rows about simulated clusters: seeds without a violation, mutants that are caught, stragglers."""
import re

from .frame import Broken, at_least, at_most, is_true, not_run, row
from .lab import CHECKOUT, two_cores

SEEDS = 300
SEEDS_FULL = 10_000
MODES = ("bounded", "sync", "backups", "local", "local-touched", "mixed")  # profiles of `downpour sim`


@row("sim-10k", "the counter model under full chaos: 8 workers, 4 ps, 1 chief")
def sim_10k(lab):
    seeds = SEEDS_FULL if lab.full else SEEDS
    one_core = two_cores()[:2] + [two_cores()[2].split(",")[0]]
    command = [*one_core, lab.program(), "sim", "--counter", "--seeds", f"1..{seeds}", "--faults", "chaos", "--workers", 8, "--ps", 4]
    ended = lab.run("sim-10k", command, 60 + seeds)
    ran, failed, rate, first = _totals(ended)
    yield is_true(f"violations in {ran:,} seeds", failed == 0 and ran == seeds, f"0 of {seeds:,}", str(failed), first)
    differ = ended.err.count("two runs with this seed differ")
    yield is_true("each 100th seed again", differ == 0, "the same hash", f"{differ} differ" if differ else "the same")
    met = {name.strip(): float(share) for name, share in re.findall(r"^  (.+?) +in +([\d.]+) % of seeds", ended.out, re.MULTILINE)}
    rarest = min(met, key=met.get, default="")
    vacuous = [line.split("`")[1] for line in ended.err.splitlines() if line.startswith("vacuous")]
    yield is_true("every kind of fault", bool(met) and not vacuous, "in >= 1 % of seeds", f"lacks {', '.join(vacuous)}" if vacuous else "all",
                  f"{len(met)} counters, least: {rarest} in {met.get(rarest, 0)} %; all: " + ", ".join(f"{name} {share} %" for name, share in met.items()))
    yield at_least("seeds/s on one core", rate, 20)
    if not lab.full:
        yield not_run(f"{SEEDS_FULL:,} seeds", "needs --full")


def _totals(ended):
    """Returns the seeds that ran, those with a violation, the seeds per second, and the line of the first violation."""
    totals = re.search(r"(\d+) seeds, (\d+) with a violation; ([\d.]+) seeds/s", ended.out)
    if not totals:
        raise Broken(f"`downpour sim` ended with {ended.code} and printed no totals: {ended.err.strip()[-200:]}")
    first = next((line for line in ended.err.splitlines() if line.startswith("seed ")), "")
    return int(totals[1]), int(totals[2]), float(totals[3]), first


@row("sim-modes", "each training mode under full chaos")
def sim_modes(lab):
    """Two processes run half of the seeds each."""
    seeds = SEEDS_FULL if lab.full else SEEDS
    halves = (f"1..{seeds // 2}", f"{seeds // 2 + 1}..{seeds}")
    for mode in MODES:
        commands = [[lab.program(), "sim", "--profile", mode, "--seeds", half] for half in halves]
        with lab.start("sim-modes", commands[0], 60 + seeds) as first, lab.start("sim-modes", commands[1], 60 + seeds) as second:
            ended = [running.wait() for running in (first, second)]
        totals = [_totals(half) for half in ended]
        ran, failed = (sum(column) for column in list(zip(*totals))[:2])
        fine = failed == 0 and ran == seeds and not any(half.code for half in ended)  # a fence that acts too rarely is an error, too
        yield is_true(f"{mode}: violations", fine, f"0 of {seeds:,} seeds", f"{failed} of {ran:,}",
                      next((line for *_, line in totals if line), "") or " ".join(half.err.strip() for half in ended if half.code)[:200])
    if not lab.full:
        yield not_run(f"{SEEDS_FULL:,} seeds", "needs --full")


@row("mutants", "deliberately broken builds are caught by the simulator")
def mutants(lab):
    if not lab.full:
        listed = lab.run("mutants", [CHECKOUT / "tools/mutants", "--list"]).expect().out.split()
        yield at_least("broken builds", len(listed), 20)
        yield not_run("all are caught within 1,000 seeds", "needs --full")
        return
    ended = lab.run("mutants", [CHECKOUT / "tools/mutants"], 4 * 3600)
    totals = re.search(r"(\d+) of (\d+) caught", ended.out)
    if not totals:
        raise Broken(f"tools/mutants ended with {ended.code}: {ended.err.strip()[-200:]}")
    yield at_least("broken builds", int(totals[2]), 20)
    survivors = [line.split()[0] for line in ended.out.splitlines() if "SURVIVES" in line]
    seeds = {line.split()[0]: line.split()[2] for line in ended.out.splitlines() if re.search(r" seed \d+ ", line)}
    yield is_true("all are caught within 1,000 seeds", not survivors and ended.code == 0, "all", f"not {', '.join(survivors)}" if survivors else totals[0],
                  "seed that caught each: " + ", ".join(f"{name} {seed}" for name, seed in seeds.items()))


# ---- stragglers ----------------------------------------------------------------------------------------------------------------

WORKERS = 8
PS = 4
SLOWER = 10
# `--moments 0` keeps only the first of the faults, so that one worker is slow from then on.
ONE_SLOW = ("--faults", "straggler=1s", "--moments", "0")


def _clicks_job(lab, name, data="", train=""):
    """Makes clicks and a job of one epoch for them. `data` and `train` end its tables. Returns its path."""
    lab.synth(name, "train.svm", 200_000, 0, "--ids", 200)
    job = lab.row_folder(name) / "job.toml"
    job.write_text(f'data = {{ source = "train.svm", format = "libsvm"{data} }}\nmodel = {{ preset = "logistic_regression" }}\n'
                   'optimizer = { type = "ftrl", learning_rate = 0.1 }\n'
                   f'train = {{ epochs = 1, batch_size = 100, reduction = "sum"{train} }}\n')
    return job


def _simulated(lab, name, job, seed, *flags):
    """Simulates the job on 8 workers. Returns the seconds of the epoch, and the output."""
    command = [lab.program(), "sim", job, "--fresh", "--workers", WORKERS, "--ps", PS, "--batch-ms", 500, "--seed", seed, "--quiet",
               "--set", f"run_dir={job.parent / 'run'}", *flags]
    out = lab.run(name, command, 300).expect().out
    said = re.search(r"simulated ([\d.]+) s of cluster time", out)
    if not said:
        raise Broken("`downpour sim` did not print the cluster's time")
    return float(said[1]), out


@row("straggler", "8 simulated workers of which one computes 10 times as long")
def straggler(lab):
    job = _clicks_job(lab, "straggler")
    equal, _ = _simulated(lab, "straggler", job, 7)
    slow, _ = _simulated(lab, "straggler", job, 7, *ONE_SLOW)
    ideal = equal * WORKERS / (WORKERS - 1 + 1 / SLOWER)
    yield at_most("epoch, of the ideal one", slow / ideal, 1.2, " x", f"{slow:.1f} s, ideal {ideal:.1f} s, with {WORKERS} equal workers {equal:.1f} s")


@row("backups", "8 simulated workers of which one computes 10 times as long, synchronous steps without and with a backup")
def backups(lab):
    job = _clicks_job(lab, "backups", ", shard_records = 1000", f', mode = "sync", replicas = {WORKERS}')

    def trained(seed, *flags):
        """Returns the seconds of the epoch and its steps per second."""
        seconds, out = _simulated(lab, "backups", job, seed, *flags)
        commits = re.search(r"^  commit +(\d+) times", out, re.MULTILINE)
        if not commits:
            raise Broken("`downpour sim` did not print the number of commits")
        return seconds, int(commits[1]) / PS / seconds

    equal_s, equal_rate = trained(7)
    alone_s, alone_rate = trained(7, *ONE_SLOW)
    backed = [trained(seed, *ONE_SLOW, "--set", "train.backups=1") for seed in (7, 8, 9, 10)]  # the slowest one counts
    backed_s, backed_rate = max(seconds for seconds, _ in backed), min(rate for _, rate in backed)
    yield at_least("steps/s with a backup, of 8 equal workers", backed_rate / equal_rate, 1 / 1.15, " x",
                   f"{backed_rate:.2f}, equal workers {equal_rate:.2f}, without a backup {alone_rate:.2f}")
    yield at_most("epoch with a backup, of 8 equal workers", backed_s / equal_s, 1.3, " x",
                  f"{backed_s:.1f} s, equal workers {equal_s:.1f} s, without a backup {alone_s:.1f} s")
