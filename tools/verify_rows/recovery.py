"""Rows about failures of processes and disks, and about the cost of checkpoints."""
import json
import os
import random
import re
import signal
import sys
import time

from .frame import Broken, NotRun, at_least, at_most, is_true, row
from .lab import CHECKOUT, balanced, named, outputs

CASES = CHECKOUT / "tests/fault/cases.py"


def fault_case(lab, row_name, case, *flags, timeout_s=900):
    """Runs a fault test on real processes. Returns its measurements."""
    ended = lab.run(row_name, [sys.executable, CASES, "--json", "--bin", lab.bin, *flags, case], timeout_s)
    found = ended.summary()
    if found["state"] == "skipped":
        raise NotRun(f"{case}: {found['why']}")
    if found["state"] != "ok":
        raise Broken(f"tests/fault/cases.py {case}: {found['why']}")
    return found


# ---- kill -9 ---------------------------------------------------------------------------------------------------------------

@row("kill-r1", "kill -9 of worker, ps, chief in turn every 2 s, 2 ps + 3 workers over tcp")
def kill_r1(lab):
    found = fault_case(lab, "kill-r1", "kill-counter", "--seconds", 60)
    yield at_least("kills", found["kills"], 28, note="the chief included")
    yield is_true("every weight of the counter model", True, f"all {found['epochs']}", found["weights"],
                  f"{found['records']:,} weights; {found['duplicate_parts']:,} parts repeated; account balances")
    yield at_most("90 % of the rate after the last kill", found["seconds_to_90_percent"], 5, " s",
                  f"shards/s before the first kill {found['shards_per_second']:.1f}, from 5 s after the last one on {found['shards_per_second_after'] or 0:.1f}")
    adult = lab.data("adult/adult.data") and CHECKOUT / "docs/examples/adult.toml"
    found = fault_case(lab, "kill-r1", "kill-auc", "--seconds", 60, "--job", adult)
    yield at_most("adult: AUC's difference to a run without faults", abs(found["auc_killed"] - found["auc_plain"]), 0.002,
                  note=f"{found['auc_killed']:.4f} with {found['kills']} kills, {found['auc_plain']:.4f} without; account balances")


@row("kill-local", "local processes of `downpour train` die and are started again by it")
def kill_local(lab):
    found = fault_case(lab, "kill-local", "kill-local", "--long")
    yield is_true("restarts", found["restarts"] == found["kills"], f"{found['kills']}, as killed", str(found["restarts"]), "account balances")
    yield is_true("every weight of the counter model", True, "exact", found["weights"])


@row("ps-restart", "one of 2 ps is killed, 1 GB of state each")
def ps_restart(lab):
    found = fault_case(lab, "ps-restart", "ps-restart", "--megabytes", 1000)
    yield at_most("serving again after its restart", found["seconds_to_serve"], 5, " s",
                  f"the chief took it in after {found['seconds_to_adopt']:.2f} s; {found['image_mb']:.0f} MB read from the checkpoint; "
                  f"a shard had ended after {found['seconds_to_shard']:.2f} s")
    yield is_true("the other ps", found["restored"] == ["ps 1"], "not rolled back", f"restored: {', '.join(found['restored'])}")
    yield is_true("processes started again", found["started_again"] == ["ps 1"], "ps 1 alone", ", ".join(found["started_again"]))


@row("resume", "everything is killed at a random moment; the same command ends the job")
def resume(lab):
    clicks, made = lab.synth("resume", "train.tsv", 1_000_000 if lab.full else 400_000, 0, "--ids", 2000)
    test, _ = lab.synth("resume", "test.tsv", 100_000, 1, "--ids", 2000)
    records = made["rows"]
    flags = ("--set", f"data.source={clicks}", "--set", f"eval.source={test}", "--epochs", 3, "--ps", 2, "--workers", 2)
    plain = lab.train("resume", "quickstart.toml", *flags)
    wanted = outputs(plain.summary())["auc"]
    times = 5 if lab.full else 2
    rng = random.Random()
    aucs, wrong, moments = [], [], []
    for number in range(times):
        run_dir = lab.row_folder("resume") / f"killed-{number}"
        command = lab.train_command("quickstart.toml", run_dir, *flags)
        moments.append(rng.uniform(0.1, 0.95) * plain.wall_s)
        with lab.start("resume", command, 300) as running:
            while running.is_running() and running.age_s() < moments[-1]:
                time.sleep(0.01)
            if running.is_running():
                os.killpg(running.pid, signal.SIGKILL)
        again = [part for part in command if part != "--fresh"]
        summary = lab.run("resume", again).expect().summary()
        aucs.append(outputs(summary)["auc"])
        wrong += [text for text in [balanced(summary, records)] if text]
    said = ", ".join(f"{at:.2f}" for at in moments) + f" of {plain.wall_s:.1f} s"
    yield is_true("account after the second run", not wrong, "balances", "; ".join(wrong) or f"balances in {times} runs", f"killed after {said}")
    worst = max(aucs, key=lambda auc: abs(auc - wanted))
    yield at_most("AUC's difference to an undisturbed run", abs(worst - wanted), 0.002, note=f"{worst:.4f}, undisturbed {wanted:.4f}")


# ---- checkpoints -------------------------------------------------------------------------------------------------------------

@row("checkpoint-faults", "a power cut at every change of the disk; every flipped bit and truncation of 64 KiB")
def checkpoint_faults(lab):
    program = lab.program("checkpoint_test")
    listed = lab.run("checkpoint-faults", [program, "--list-test-names-only", "[durability],[slow]"], 60).out.splitlines()
    names = [line.strip() for line in listed if line.strip()]
    if not names:
        raise Broken(f"{program} has no test about durability")
    for name in names:
        pattern = re.sub(r"([,\\\[\]])", r"\\\1", name)
        ended = lab.run("checkpoint-faults", [program, pattern], 1800)
        counted = re.search(r"\((\d+) assertions?|assertions: (\d+)", ended.out)
        yield is_true(name[:70], ended.code == 0, "holds", "holds" if ended.code == 0 else f"exit {ended.code}",
                      f"{next(filter(None, counted.groups()))} assertions, {ended.wall_s:.0f} s" if counted else f"{ended.wall_s:.0f} s")


@row("checkpoint-rate", "a checkpoint of 1 GB while pushes are served")
def checkpoint_rate(lab):
    found = lab.bench("checkpoint")
    pushes = named(found, "pushes while a checkpoint is written")
    written = named(found, "checkpoint while pushes are served")
    yield at_least("pushes meanwhile, of those without", pushes["value"] / pushes["limit_value"], 0.9,
                   note=f"{pushes['value']:.2f} of {pushes['limit_value']:.2f} {pushes['unit']}")
    share = written["value"] / written["limit_value"]
    fast = written["value"] >= 500
    yield is_true("written", fast or share >= 0.8, ">= 500 MB/s, or >= 0.8 of dd", f"{written['value']:.0f} MB/s, {share:.2f} of dd",
                  f"dd with fsync: {written['limit_value']:.0f} MB/s")
    pause = named(found, "longest copy of a turn")
    yield at_most("longest pause", pause["value"], 50, " ms")


TRAINED_ROWS, TRAINED_TIMES, TRAINED_BUCKETS = 300_000, 8, 1 << 24


@row("checkpoint-training", "a Wide & Deep job with 0.9 GB of state, while whole checkpoints are written one behind the other")
def checkpoint_training(lab):
    """Trains in turns with one checkpoint at the end, and with a new checkpoint as soon as the last one is published. Runs each
    three times. The best run of each counts."""
    path = lab.row_folder("checkpoint-training") / "uniform.tsv"
    draw = random.Random(7).getrandbits
    with open(path, "w") as out:
        for _ in range(TRAINED_ROWS):
            out.write("\t".join([str(draw(1)), *(str(draw(7)) for _ in range(13)), *(f"{draw(24):x}" for _ in range(26))]) + "\n")
    source = json.dumps([str(path)] * TRAINED_TIMES)  # one long epoch, because each epoch ends with a checkpoint
    field = f'{{ type = "string", default = "", transform = [{{ op = "hash", buckets = {TRAINED_BUCKETS} }}] }}'
    rates, written = {"10h": [], "10ms": []}, []
    for _ in range(3):
        for every, found in rates.items():
            ended = lab.train("checkpoint-training", "synthetic-wide-deep-512.toml", "--set", "eval.source=[]", "--set", f"data.source={source}",
                              "--set", f'data.fields."C1..C26"={field}', "--ps", 2, "--workers", 1,
                              "--set", f'train.checkpoint={{ every = "{every}", keep = 1 }}').summary()
            found.append(ended["records"] / ended["train_seconds"])
            events = (lab.row_folder("checkpoint-training") / "run/events.jsonl").read_text().splitlines()
            published = [event for event in map(json.loads, events) if event["event"] == "published"]
            if every == "10ms":
                written.append(f"{len(published)} of up to {published[-1]['bytes'] / 1e6:.0f} MB")
    path.unlink()
    best = {every: max(found) for every, found in rates.items()}
    yield at_least("examples/s, of those without", best["10ms"] / best["10h"], 0.9,
                   note=f"{best['10ms']:,.0f} of {best['10h']:,.0f}; checkpoints: {', '.join(written)}")


@row("warm-start", "a second day begins with the first day's variables")
def warm_start(lab):
    folder = lab.row_folder("warm-start")
    rows = 5000
    lab.synth("warm-start", "day1.svm", 200_000, 0, "--ids", 200)
    lab.synth("warm-start", "day2.svm", rows, 1, "--ids", 200)
    job = ('data = {{ source = "day{day}.svm", format = "libsvm" }}\nmodel = {{ preset = "logistic_regression" }}\n'
           'optimizer = {{ type = "ftrl", learning_rate = 0.1 }}\ntrain = {{ {train} }}\n')
    (folder / "day1.toml").write_text(job.format(day=1, train="epochs = 1, batch_size = 200"))
    # The second day is a single batch, so the epoch's loss is the loss of this batch before its update.
    warm = f'epochs = 1, batch_size = {rows}, warm_start = {{ run = "day1" }}'
    (folder / "day2.toml").write_text(job.format(day=2, train=warm))
    train = lambda day: lab.run("warm-start", lab.train_command(folder / f"day{day}.toml", folder / f"day{day}"), cwd=folder).expect().summary()  # noqa: E731
    train(1)
    told = lab.run("warm-start", [lab.program(), "eval", folder / "day1", "--data", folder / "day2.svm", "--log-format", "json"]).expect().summary()
    account = train(2)["accounts"][0]
    if account.get("batches") != 1:
        raise Broken(f"the second day was {account.get('batches')} batches, not one")
    evaluated = outputs(told)["loss"]
    yield at_most("first batch's loss, to the first run's eval of it", abs(account["loss"] - evaluated), 1e-6, note=f"{account['loss']:.9f} and {evaluated:.9f}")


# ---- costs -------------------------------------------------------------------------------------------------------------------

ROUNDS = 5


@row("exactly-once-cost", "rows pushed, with watermarks and with their check compiled out")
def exactly_once_cost(lab):
    """Runs both programs in turns, so that other load affects both. The median of the ratios counts."""
    rates = {"bench-push": [], "bench-push-unchecked": []}
    for _ in range(ROUNDS):
        for name, found in rates.items():
            found.append(lab.run("exactly-once-cost", [lab.program(name)], 300).expect().summary()["rows_per_second"])
    ratios = sorted(checked / unchecked for checked, unchecked in zip(*rates.values()))
    cost = 1 - ratios[len(ratios) // 2]
    best = {name: max(found) / 1e6 for name, found in rates.items()}
    yield at_most("rows/s that watermarks cost", cost * 100, 3, " %",
                  f"best of {ROUNDS}: {best['bench-push']:.2f} and {best['bench-push-unchecked']:.2f} M rows/s; ratios {ratios[0]:.3f} to {ratios[-1]:.3f}")


@row("reshard", "3 -> 5 -> 3 ps while training, with kills during moves")
def reshard(lab):
    found = fault_case(lab, "reshard", "reshard", "--long")
    yield is_true("every weight of the counter model", True, f"all {found['epochs']}", found["weights"], f"{found['moved']} partitions moved, {found['kills']} kills")
    yield at_most("longest pause of a partition", found["pause_ms_max"], 50, " ms")
