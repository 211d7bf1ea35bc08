"""Rows about programs as data sources: the output is read once for all workers and in its order, or the job stops."""
import os
import signal
import time
from collections import Counter

from .frame import Broken, at_most, is_true, row
from .lab import descendants
from .peers import venv_python

NUMPY = {"numpy": "numpy"}
ROWS, EPOCHS, WORKERS = 10_000, 2, 4
# A row's only feature is its id. The weight grows by exactly 1 each time the row counts: the gradient is -2^31, the rate 2^-31.
JOB = """\
data = { source = { exec = ["PYTHON", "SCRIPT"], replay = "epoch" }, FORMAT }
model.layers = [{ name = "w", type = "linear", inputs = ["ID"], bias = false }]
model.outputs = [{ name = "y", input = "w", loss = "squared", target = "label" }]
optimizer = { type = "sgd", learning_rate = 4.656612873077392578125e-10 }
train = { batch_size = 48, reduction = "sum" }
"""
LINES = 'format = "libsvm"'
ARRAYS = 'format = "npy", columns = ["label", "id"], fields = { label = {}, id = { type = "int64", transform = ["identity"] } }'
STATEFUL = f"""\
import os
open("runs", "a").write(os.environ["DOWNPOUR_EPOCH"] + "\\n")
state = 0
for i in range({ROWS}):
    state = (state * 25214903917 + 11) % 2 ** 48  # a row follows from the one before
    print(1073741824, f"{{1_000_000 + i}}:1" if state else "")
"""
BATCHES = f"""\
import sys
import numpy as np
for begin in range(0, {ROWS}, 64):
    ids = np.arange(begin, min(begin + 64, {ROWS}))
    np.save(sys.stdout.buffer, np.full(len(ids), 1073741824, np.float32))
    np.save(sys.stdout.buffer, ids + 1_000_000)
"""
# The order of rows differs between runs, so a worker that continues after the first run reads other records.
UNSEEDED = f"""\
import random, sys, time
ids = list(range({ROWS}))
random.shuffle(ids)
for i, row in enumerate(ids):
    print(1073741824, f"{{1_000_000 + row}}:1")
    if i == {ROWS} // 2:
        sys.stdout.flush()
        time.sleep(4)
"""


def _job(lab, folder, name, script, form, feature):
    (folder / f"{name}.py").write_text(script)
    text = JOB.replace("PYTHON", str(venv_python(lab, NUMPY))).replace("SCRIPT", f"{name}.py").replace("FORMAT", form).replace("ID", feature)
    (folder / f"{name}.toml").write_text(text)
    return folder / f"{name}.toml"


def _train(lab, folder, name, *flags):
    run = folder / f"run-{name}"
    return run, lab.train_command(folder / f"{name}.toml", run, "--workers", WORKERS, "--epochs", EPOCHS, *flags)


def _weights(lab, folder, run):
    rows = folder / "rows.svm"
    rows.write_text("".join(f"0 {1_000_000 + i}:1\n" for i in range(ROWS)))
    return Counter(round(float(line)) for line in lab.run("generator", [lab.program(), "predict", run, "--data", rows]).expect().out.split())


def _counted(lab, folder, name, *flags):
    run, command = _train(lab, folder, name, *flags)
    summary = lab.run("generator", command).expect().summary()
    return summary, _weights(lab, folder, run)


@row("generator", "a program's rows for 4 workers: run once an epoch, each row once; a run that can't be repeated")
def generator(lab):
    folder = lab.row_folder("generator")
    _job(lab, folder, "stateful", STATEFUL, LINES, "features")
    summary, times = _counted(lab, folder, "stateful", "--input-workers", 1, "--set", "data.shuffle=off")
    runs = (folder / "runs").read_text().split()
    yield is_true("how often the program ran", runs == [str(epoch) for epoch in range(EPOCHS)], "once an epoch", f"epochs {', '.join(runs)}")
    yield is_true("its rows, by id", times == {EPOCHS: ROWS}, f"each {EPOCHS} times", ", ".join(f"{n} rows {often} times" for often, n in times.items()))
    busy = sum(process["records"] > 0 for process in summary["processes"] if process["role"] == "worker")
    yield is_true("workers that trained on them", busy == WORKERS, str(WORKERS), str(busy))
    _job(lab, folder, "batches", BATCHES, ARRAYS, "id")
    summary = lab.run("generator", _train(lab, folder, "batches", "--input-workers", 1)[1]).expect().summary()
    applied = [account["applied"] for account in summary["accounts"]]
    yield is_true("arrays of 64 rows, batches of 48", applied == [ROWS] * EPOCHS, f"{ROWS:,} rows an epoch", " and ".join(f"{n:,}" for n in applied))
    _job(lab, folder, "unseeded", UNSEEDED, LINES, "features")
    yield from _not_replayable(lab, folder)


def _not_replayable(lab, folder):
    """Kills the reading worker during its read. The job must stop."""
    _, command = _train(lab, folder, "unseeded", "--transport", "tcp")
    with lab.start("generator", command, 120) as running:
        killed_s = None
        while killed_s is None and running.is_running():
            time.sleep(0.05)
            found = descendants(running.pid)
            readers = [pid for pid, program in found.items() if program == "downpour-worker" and "python" in " ".join(descendants(pid).values())]
            if readers and running.age_s() > 2.5:
                os.kill(readers[0], signal.SIGKILL)
                killed_s = running.age_s()
        if killed_s is None:
            raise Broken("no worker that ran the program was found")
        ended = running.wait()
    said = "not replayable" in ended.err
    yield is_true("unseeded, and its reader killed", ended.code != 0 and said, "stops: not replayable",
                  f"exit {ended.code}{', not replayable' if said else ''}", ended.err.strip().splitlines()[0][:160] if ended.err.strip() else "")
    yield at_most("time until it stops", running.age_s() - killed_s, 60, " s")
