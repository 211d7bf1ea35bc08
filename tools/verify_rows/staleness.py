"""Simulated training of one job in every mode, with equal workers or with one that is ten times slower. docs/images/plot_modes.py
draws these figures."""
import json
import re

from .frame import Broken, at_least, figure, is_true, row

ROW = "staleness"
BOUNDS = (0, 1, 4, 16)
PULLS = 250_000  # for each bound
WORKERS, PS, BATCH_MS, ROWS = 8, 4, 100, 51_200
SLOW_WORKER = ("--faults", "straggler=1s", "--moments", "0")  # one worker, from a moment in the first second on
PULLS_JOB = """
data = { source = "pulls.svm", format = "libsvm", shard_records = 2500 }
model = { preset = "logistic_regression" }
optimizer = { type = "sgd", learning_rate = 0.01 }
train = { epochs = 1, batch_size = 1, mode = "bounded", in_flight = 2 }
"""
CLICKS_JOB = """
data = { source = "train.tsv", format = "criteo" }
model = { preset = "wide_deep" }
optimizer = { type = "adagrad", learning_rate = 0.05 }
train = { epochs = 8, batch_size = 100 }
eval = { source = "test.tsv", metrics = ["auc"] }
"""
SMALL_SHARDS = {"data.shard_records": 200}
ASYNC = SMALL_SHARDS
SYNC = {"train.mode": "sync", "train.replicas": WORKERS, **SMALL_SHARDS}
MODES = {
    "async": ASYNC,
    "bounded, staleness = 4": {"train.mode": "bounded", "train.staleness": 4, **SMALL_SHARDS},
    "sync": SYNC,
    "sync, backups = 1": {**SYNC, "train.backups": 1},
    "local, sync_every = 16": {**SYNC, "train.mode": "local", "train.sync_every": 16, "data.shard_records": 1600},  # a round a shard
}


def _command(lab, job, ps, batch_ms, settings, slow):
    flags = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [lab.program(), "sim", job, "--fresh", "--workers", WORKERS, "--ps", ps, "--batch-ms", batch_ms, "--seed", 7, "--log-format", "json",
            "--set", f"run_dir={lab.row_folder(ROW) / 'run'}", *flags, *(SLOW_WORKER if slow else ())]


def simulate(lab, settings, slow):
    """Trains on synthetic clicks. Returns for each epoch (records, seconds, test loss, test AUC): the records applied and the
    simulated time trained until its end."""
    folder = lab.row_folder(ROW)
    job = folder / "clicks.toml"
    if not job.exists():
        lab.synth(ROW, "train.tsv", ROWS, 0, "--ids", 200)
        lab.synth(ROW, "test.tsv", ROWS, 1, "--ids", 200)
        job.write_text(CLICKS_JOB)
    round_ms = BATCH_MS * settings.get("train.sync_every", 1)  # `--batch-ms` is the time of a whole local round
    out = lab.run(ROW, _command(lab, job, PS, round_ms, settings, slow), 300).expect().out
    if slow != bool(re.search(r"^  straggler +1 times$", out, re.MULTILINE)):
        raise Broken("`downpour sim` did not make one worker slow")
    summary = json.loads(next((line for line in out.splitlines() if line.startswith("{")), "{}"))
    points, records, seconds = [], 0, 0.0
    for account, evaluation in zip(summary["accounts"], summary["evaluations"], strict=True):
        records, seconds = records + account["applied"], seconds + account["seconds"]
        metrics = next(iter(evaluation["outputs"].values()))
        points.append((records, seconds, metrics["logloss"], metrics["auc"]))
    return points


def bounded(lab, bound, slow):
    """Returns (records per simulated second, test AUC at the end). No bound means mode "async"."""
    settings = ASYNC if bound is None else {"train.mode": "bounded", "train.staleness": bound, **SMALL_SHARDS}
    records, seconds, _, auc = simulate(lab, settings, slow)[-1]
    return records / seconds, auc


@row(ROW, "8 simulated workers with bounded staleness, one of them 10 times slower: the bound, the rate, the AUC")
def staleness(lab):
    job = lab.row_folder(ROW) / "pulls.toml"
    lab.synth(ROW, "pulls.svm", PULLS, 0, "--ids", 20)
    job.write_text(PULLS_JOB)
    violations, pulls = [], 0
    for bound in BOUNDS:
        ended = lab.run(ROW, _command(lab, job, 1, 10, {"train.staleness": bound}, slow=True), 600)
        applied = re.search(r"^(\d+) records applied", ended.out, re.MULTILINE)
        if "I6" in ended.err:
            violations.append(f"{bound}: {ended.err.strip().splitlines()[0]}")
        elif ended.expect() and not applied:
            raise Broken("`downpour sim` did not print the records applied")
        pulls += int(applied[1]) if applied else 0
    yield is_true(f"pulls beyond a bound of {', '.join(map(str, BOUNDS))}", not violations and pulls == len(BOUNDS) * PULLS, "none",
                  "; ".join(violations) or "none", f"of {pulls:,}; the simulator checks each worker after each of its turns")
    free = {slow: bounded(lab, None, slow) for slow in (False, True)}
    found = {bound: [bounded(lab, bound, slow) for slow in (False, True)] for bound in BOUNDS}
    for bound, (equal, slow) in found.items():
        yield at_least(f"staleness {bound}: AUC with a slow worker - AUC of async", slow[1] - free[True][1], -0.002, "",
                       f"{slow[1]:.4f} - {free[True][1]:.4f}; records/s: {figure(equal[0])} with equal workers and {figure(slow[0])} with a slow "
                       f"one, async {figure(free[False][0])} and {figure(free[True][0])}")
