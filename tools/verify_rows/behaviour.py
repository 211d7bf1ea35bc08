"""Rows about the user's view: the cost of an idle cluster, a file without a job, threads, clean sanitizers, broken input."""
import os
import re
import time
from pathlib import Path

from .frame import Broken, at_most, below, is_true, median, not_run, row
from .lab import CHECKOUT, free_port, suite_check, two_cores

SMALL_JOB = """\
run_dir   = "run"
data      = { source = "train.svm", format = "libsvm" }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl", learning_rate = 0.1 }
train     = { epochs = 1, batch_size = 256 }
"""


@row("idle", "idle cluster of chief + 2 ps + 2 workers; first step")
def idle(lab):
    folder = lab.row_folder("idle")
    lab.synth("idle", "train.svm", 4000)
    job = folder / "job.toml"
    job.write_text(SMALL_JOB)
    yield from _waiting_cluster(lab, job)
    starts = [_seconds_to_first_shard(lab, job, folder / "run/events.jsonl") for _ in range(3)]
    yield below("start of 2 + 2 until the first shard has ended", median(starts), 1, " s",
                "a shard is at least one step; of 3: " + ", ".join(f"{s:.3f}" for s in starts))


def _waiting_cluster(lab, job):
    """Starts five processes by hand over tcp. The chief waits for a third ps, so all of them are idle."""
    chief = f"127.0.0.1:{free_port()}"
    commands = [[lab.program("downpour-chief"), job, "--bind", f"tcp://{chief}", "--fresh", "--set", "cluster.ps=3", "--set", "cluster.workers=2"]]
    commands += [[lab.program(f"downpour-{role}"), "--chief", chief, "--index", index, "--threads", 1,
                  "--keys", job.parent / "run/keys"] for role in ("ps", "worker") for index in (0, 1)]
    processes = []
    try:
        for command in commands:
            processes.append(lab.start("idle", command, 60).__enter__())
        time.sleep(4)
        for process in processes:
            if not process.is_running():
                process.wait().expect()
                raise Broken(f"{process.command[0]} ended while it should wait")
        cpu_before = sum(_cpu_seconds(process.pid) for process in processes)
        time.sleep(2)
        cpu = (sum(_cpu_seconds(process.pid) for process in processes) - cpu_before) / 2
        pss = sum(_proc_mb(process.pid, "smaps_rollup", "Pss:") for process in processes)
        rss = sum(_proc_mb(process.pid, "status", "VmRSS:") for process in processes)
    finally:
        for process in reversed(processes):
            process.__exit__(None, None, None)
    yield below("memory of all five (PSS)", pss, 100, " MB", f"RSS, shared pages counted five times: {rss:.0f} MB; CPU {cpu:.1%} of a core")


def _proc_mb(pid, file, key):
    for line in Path(f"/proc/{pid}/{file}").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024 / 1e6
    raise Broken(f"/proc/{pid}/{file} has no {key}")


def _cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _seconds_to_first_shard(lab, job, events):
    events.unlink(missing_ok=True)
    with lab.start("idle", [lab.program(), "train", job, "--fresh", "--quiet", "--ps", 2, "--workers", 2], 60) as running:
        while not (events.exists() and '"event":"ended"' in events.read_text()):
            if not running.is_running():
                running.wait().expect()
                raise Broken(f"{events} says of no shard that it has ended")
            time.sleep(0.002)
        seconds = running.age_s()
        running.wait().expect()
        return seconds


@row("nojob", "a data file without a job; --dry-run; twice; another seed")
def nojob(lab):
    folder = lab.row_folder("nojob")
    for name in ("clicks.svm", "clicks.csv", "clicks.tsv"):
        lab.synth("nojob", name, 20_000)
    train = lambda name, *flags: lab.run("nojob", [lab.program(), "train", name, *flags], cwd=folder)  # noqa: E731

    dry = train("clicks.svm", "--dry-run")
    wanted = ("[model]", "batch_size", "range 0:", "Memory per ps")
    absent = [text for text in wanted if text not in dry.out]
    yield is_true("--dry-run", dry.code == 0 and not absent, "job, shards, memory", f"lacks {absent}" if absent else f"exit {dry.code}")
    yield is_true("--dry-run leaves nothing behind", not (folder / "runs").exists(), "no run folder", "a run folder" if (folder / "runs").exists() else "none")
    for name in ("clicks.svm", "clicks.csv", "clicks.tsv"):
        first = train(name, "--set", f"run_dir=runs/{name}")
        works = first.code == 0 and "balanced" in first.out and Path(name).suffix[1:].replace("svm", "libsvm") in first.err + first.out
        yield is_true(f"train {name}", works, "works, says format", _last_words(first) if not works else _auc_of(first))
    again = train("clicks.svm", "--set", "run_dir=runs/clicks.svm")
    said = "already finished" in again.out
    yield is_true("the same command again", again.code == 0 and said, "says finished", "says finished" if said else _last_words(again))
    other = train("clicks.svm", "--set", "run_dir=runs/clicks.svm", "--set", "seed=99")
    before = re.search(r"^seed = (\d+)", dry.out, re.MULTILINE)
    names = [text for text in ("`seed`", before[1] if before else "?", "99") if text not in other.err]
    yield is_true("with another seed", other.code != 0 and not names, "key, both values", f"lacks {names}" if names else f"exit {other.code}, names them",
                  next((line for line in other.err.splitlines() if line.startswith("error")), ""))


def _auc_of(ended):
    found = re.findall(r"auc ([\d.]+)", ended.out)
    return f"works, AUC {found[-1]}" if found else "works"


def _last_words(ended):
    return f"exit {ended.code}: " + " / ".join((ended.err + ended.out).strip().splitlines()[-2:])


@row("threads", "2 ps + 2 workers on two cores of any host")
def threads(lab):
    folder = lab.row_folder("threads")
    lab.synth("threads", "train.svm", 4000)
    (folder / "job.toml").write_text(SMALL_JOB)
    ended = lab.run("threads", [*two_cores(), lab.program(), "train", "job.toml", "--fresh", "--ps", 2, "--workers", 2], cwd=folder).expect()
    said = re.search(r"(\d+) compute threads? in total", ended.err)
    yield at_most("compute threads, said at start", int(said[1]) if said else None, 2, note=said[0] if said else "")
    of_workers = [int(n) for log in sorted((folder / "run/logs").glob("worker-*.log")) for n in re.findall(r"worker: (\d+) compute", log.read_text())]
    yield at_most("compute threads, said by the workers", sum(of_workers) if len(of_workers) == 2 else None, 2)


@row("sanitizers", "the test suite under ASan/UBSan and TSan")
def sanitizers(lab):
    for preset in ("asan", "tsan"):
        if not lab.full:
            yield not_run(f"{preset}: tools/test", "needs --full")
            continue
        ended = lab.run("sanitizers", ["tools/test"], 5400, {"PRESET": preset})
        yield suite_check(f"{preset}: tools/test", ended)


@row("fuzz", "every reader fed with broken input: files, jobs, messages, checkpoints")
def fuzz(lab):
    seconds = 60 if lab.full else 3
    folder = lab.row_folder("fuzz")
    if lab.full:
        for step in (["cmake", "--preset", "asan"], ["cmake", "--build", "--preset", "asan", "--target", "fuzz-readers"]):
            lab.run("fuzz", step, 5400).expect()
    program = CHECKOUT / "build/asan/bin/fuzz-readers" if lab.full else lab.program("fuzz-readers")
    names = lab.run("fuzz", [program, "--list"]).expect().out.split()
    ended = lab.run("fuzz", [program, "--seconds", seconds, "--out", folder], 300 + len(names) * (seconds + 200))
    rows = re.findall(r"^(\S+) +(\d+) inputs +(\d+)/s  memory <= +(\d+) MiB  slowest +(\d+) ms  (.*)$", ended.out, re.MULTILINE)
    found = [f"{name}: {what}" for name, *_, what in rows if what != "ok"]
    build = "ASan and UBSan" if lab.full else "the release build; sanitizers need --full"
    yield is_true(f"{len(names)} targets, {seconds} s each", ended.code == 0 and [r[0] for r in rows] == names and not found, "0 findings",
                  "; ".join(found) or f"{len(found)} findings", f"{build}; {sum(int(r[1]) for r in rows):,} inputs")
    if rows:
        largest, slowest = (max(rows, key=lambda r, at=at: int(r[at])) for at in (3, 4))
        yield at_most("memory at once", int(largest[3]), 256, " MiB", largest[0])
        yield at_most("processor time of an input", int(slowest[4]), 100_000 if lab.full else 30_000, " ms", slowest[0])
