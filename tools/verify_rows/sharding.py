"""Rows about sharding: counts by id the rows that each worker reads, and compares them with TensorFlow."""
import itertools
import os
import re
import signal
import time
from collections import Counter

from .frame import Broken, NotRun, is_true, row
from .lab import CHECKOUT, workers_below
from .peers import venv_python

TENSORFLOW = {"tensorflow": "tensorflow-cpu"}
ROWS, WORKERS = 1003, 2
FILES = (1, 2, 3, 7)
GENERATOR = "generator"
KILLS, EPOCHS_WITH_KILLS = 3, 60
# A row's only feature is its id. The target is so large that the weight grows by exactly 1 each time the row counts: the gradient is -2^31, the rate 2^-31.
JOB = """\
run_dir = "run"
partitions = 16
data = { source = "SOURCE", format = "libsvm", shard_records = 40 }
model.layers = [{ name = "w", type = "linear", inputs = ["features"], bias = false }]
model.outputs = [{ name = "y", input = "w", loss = "squared", target = "label" }]
optimizer = { type = "sgd", learning_rate = 4.656612873077392578125e-10 }
train = { batch_size = 16, reduction = "sum" }
"""


def _write(folder):
    for count in FILES:
        (folder / str(count)).mkdir()
        for file in range(count):
            rows = range(ROWS * file // count, ROWS * (file + 1) // count)
            (folder / str(count) / f"{file}.svm").write_text("".join(f"1073741824 {1_000_000 + i}:1\n" for i in rows))
        (folder / f"{count}.toml").write_text(JOB.replace("SOURCE", f"{count}/*.svm"))
    (folder / "rows.awk").write_text('BEGIN { for (i = begin + 0; i < end + 0; ++i) print "1073741824 " 1000000 + i ":1" }\n')
    (folder / "rows.sh").write_text('awk -v begin=$DOWNPOUR_SHARD_BEGIN -v end=$DOWNPOUR_SHARD_END -f rows.awk\n')
    source = f'{{ exec = ["sh", "rows.sh"], replay = "shard", records = {ROWS} }}'
    (folder / f"{GENERATOR}.toml").write_text(JOB.replace('"SOURCE"', source))


def _theirs(lab, folder):
    """Returns the output of auto_shard.py, or {} and the reason if there is no TensorFlow."""
    try:
        python = venv_python(lab, TENSORFLOW)
    except NotRun as why:
        return {}, f"TensorFlow: {why}"
    script = CHECKOUT / "tools/verify_rows/auto_shard.py"
    return lab.run("sharding-counts", [python, script, folder, ROWS], 600).expect().summary(), ""


def _told(counted):
    """Returns a count in words, such as `669 + 334, each once`."""
    if "error" in counted:
        return f"error: {counted['error']}"
    times = {int(often): rows for often, rows in counted["times"].items()}
    words = {0: "never", 1: "once", 2: "twice"}
    name = lambda often: words.get(often, f"{often} times")  # noqa: E731
    spread = f"each {name(next(iter(times)))}" if len(times) == 1 else ", ".join(f"{rows} {name(often)}" for often, rows in sorted(times.items()))
    return f"{' + '.join(map(str, counted['workers']))}, {spread}"


def _train(lab, folder, files, *flags):
    run = folder / "run"
    command = lab.train_command(folder / f"{files}.toml", run, "--ps", 2, "--workers", WORKERS, *flags)
    return run, command


def _weights(lab, folder, run, files):
    """Returns for each row how often it counted."""
    data = sorted((folder / str(files)).glob("*.svm"), key=lambda path: int(path.stem))
    said = lab.run("sharding-counts", [lab.program(), "predict", run, "--data", *data]).expect().out
    return [round(float(line)) for line in said.split()]


def _ours(lab, folder, policy, files):
    run, command = _train(lab, folder, files, "--epochs", 1, "--set", f"data.sharding={policy}")
    ended = lab.run("sharding-counts", command)
    if policy == "file" and files in (1, GENERATOR):
        return {"refused": ended.code == 78 and "needs the same number of files" in ended.err, "code": ended.code}
    by_worker = sorted((p["index"], p["records"]) for p in ended.expect().summary()["processes"] if p["role"] == "worker")
    return {"workers": [records for _, records in by_worker], "times": Counter(_weights(lab, folder, run, 1 if files == GENERATOR else files))}


def _killed(lab, folder, policy, files):
    """Kills workers in turn during a run. Returns how often rows counted, and the number of lost workers."""
    run, command = _train(lab, folder, files, "--epochs", EPOCHS_WITH_KILLS, "--set", f"data.sharding={policy}")
    kills = 0
    with lab.start("sharding-counts", command, 300) as running:
        while kills < KILLS and running.is_running():
            time.sleep(0.7)
            workers = workers_below(running.pid)
            if len(workers) < WORKERS:
                continue
            try:
                os.kill(workers[kills % WORKERS], signal.SIGKILL)
                kills += 1
            except ProcessLookupError:
                pass
        lost = running.wait().expect().summary()["workers_lost"]
    return Counter(_weights(lab, folder, run, 1 if files == GENERATOR else files)), lost


@row("sharding-counts", "rows by id: 2 workers, 1, 2, 3, 7 files, each sharding policy, beside TensorFlow's auto-sharding")
def sharding_counts(lab):
    folder = lab.row_folder("sharding-counts")
    _write(folder)
    theirs, absent = _theirs(lab, folder)
    beside = lambda counted: f"TensorFlow {theirs['tensorflow']}: {_told(counted)}" if theirs else absent  # noqa: E731
    for policy in ("auto", "file", "data", "off"):
        of_tensorflow = theirs["policies"][policy] if theirs else {}
        for files in (*FILES, GENERATOR):
            ours = _ours(lab, folder, policy, files)
            note = beside(of_tensorflow.get(str(files)))
            what = f"{policy}, a generator" if files == GENERATOR else f"{policy}, {files} file{'s' if files > 1 else ''}"
            if "refused" in ours:
                yield is_true(what, ours["refused"], "refused", f"refused, exit {ours['code']}" if ours["refused"] else f"exit {ours['code']}", note)
                continue
            times = WORKERS if policy == "off" else 1
            yield is_true(what, ours["times"] == {times: ROWS}, "each twice" if times == 2 else "each once", _told(ours), note)
    yield from _with_kills(lab, folder)
    yield from _cut_by_hand(lab, folder, beside, theirs)


def _with_kills(lab, folder):
    for policy, files in itertools.product(("auto", "file", "data", "off"), (*FILES, GENERATOR)):
        if policy == "file" and files in (1, GENERATOR):
            continue  # refused
        times, lost = _killed(lab, folder, policy, files)
        if lost == 0:
            raise Broken(f"{policy}, {files}: the run ended before a worker could be killed")
        wanted = EPOCHS_WITH_KILLS * (WORKERS if policy == "off" else 1)
        of = "a generator" if files == GENERATOR else f"{files} file{'s' if files > 1 else ''}"
        yield is_true(f"{policy}, {of}, {EPOCHS_WITH_KILLS} epochs, workers killed", times == {wanted: ROWS}, f"each {wanted} times",
                      _in_words(times), f"{lost} workers lost")


def _in_words(times):
    return ", ".join(f"{rows} rows {often} times" for often, rows in sorted(times.items()))


def _cut_by_hand(lab, folder, beside, theirs):
    """Runs two jobs, each with its half of one data set and its own seed. Compares with TensorFlow pipelines that shuffle and
    shard in either order."""
    total = [0] * ROWS
    source = folder / "3/*.svm"
    for index in range(2):
        part = f'data.source={{ path = "{source}", shard = {{ count = 2, index = {index} }} }}'
        run, command = _train(lab, folder, 3, "--epochs", 1, "--seed", 7 + index, "--set", part)
        lab.run("sharding-counts", command).expect()
        total = [a + b for a, b in zip(total, _weights(lab, folder, run, 3))]
    note = f"shuffle().shard() without a seed: {beside(theirs['shuffle_shard'])}; shuffled list_files() under DATA: {_told(theirs['list_files'])}" if theirs else ""
    yield is_true("shard = { count = 2, index = i }, other seeds", Counter(total) == {1: ROWS}, "each once", _in_words(Counter(total)), note)


@row("order", "the order of records: the same for any number of workers, uniform, another each epoch")
def order(lab):
    """Runs the cases of data_test with the tag [order]: batches by id for 1, 2 and 8 workers, and chi-squared tests of shuffles
    over seeds and positions."""
    ended = lab.run("order", [lab.program("data_test"), "[order]", "--reporter", "compact"], 600)
    cases = re.search(r"Passed (?:all |both )?(\d+) test cases?", ended.out)
    yield is_true("cases", ended.code == 0 and cases is not None and int(cases[1]) >= 3, "all pass", ended.out.strip().splitlines()[-1][:100] if ended.out.strip() else "no output")
