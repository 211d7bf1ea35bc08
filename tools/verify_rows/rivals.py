"""Rows against other trainers in the same run: Vowpal Wabbit, and TensorFlow's ParameterServerStrategy and
MultiWorkerMirroredStrategy."""
import json
import re

from .frame import Broken, at_least, at_most, figure, median, not_run, NotRun, row
from .lab import outputs, two_cores
from .peers import TENSORFLOW, VW, synth_lr_data, venv_python, warm, zipf_clicks

LR_ROWS = 2_000_000
ROUNDS = 3


@row("lr-vw", "logistic regression from libsvm text, against Vowpal Wabbit")
def lr_vw(lab):
    """Measures process start, reading, one pass and saving the model. Both sides use the same two cores in turns. The best of
    three runs counts."""
    data = synth_lr_data(lab)
    try:
        python = venv_python(lab, VW)
    except NotRun as why:
        python, absent = None, why
    warm(data / "train.svm"), warm(data / "train.vw")
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ended = lab.train("lr-vw", "synthetic-lr.toml", "--set", "eval.source=[]", prefix=two_cores(), env={"DOWNPOUR_SYNTH": str(data)})
        trained = ended.summary()["records"]
        if trained != LR_ROWS:
            raise Broken(f"{trained} records were trained, not {LR_ROWS}")
        ours.append(LR_ROWS / ended.wall_s)
        if python:
            theirs.append(LR_ROWS / _vw(lab, python, data).wall_s)
    what = "rows/s, against Vowpal Wabbit's"
    if theirs:
        yield at_least(what, max(ours) / max(theirs), 2, " x", f"best of {ROUNDS}: {figure(max(ours))} to {figure(max(theirs))}")
    else:
        yield not_run(what, f"{absent}; ours: {figure(max(ours))} rows/s")
    evaluated = lab.run("lr-vw", [lab.program(), "eval", lab.row_folder("lr-vw") / "run", "--data", data / "test.svm", "--log-format", "json", "--quiet"])
    metrics = outputs(evaluated.expect().summary())
    best = (data / "best.txt").read_text().split("Bayes ")[-1].strip()
    yield at_least("test AUC of that one pass", metrics["auc"], 0.801, note=f"best possible: {best}")
    yield at_most("test logloss of that one pass", metrics["logloss"], 0.4217)


def _vw(lab, python, data):
    """Runs Vowpal Wabbit with the flags of the peers' vw.sh."""
    model = lab.row_folder("lr-vw") / "vw.model"
    return lab.run("lr-vw", [*two_cores(), python, "-m", "vowpalwabbit", "-d", data / "train.vw", "--loss_function", "logistic", "-b", 22,
                             "--holdout_off", "-f", model, "-P", 1_000_000, "--quiet"]).expect()


@row("wd-512", "Wide & Deep, batch 512, 2 ps + 1 worker, against TensorFlow")
def wd_512(lab):
    yield from _wide_deep(lab, "wd-512", "synthetic-wide-deep-512.toml", 512, "adagrad", times=8, cpu_us=4, beside_us=30)


@row("wd-4096", "Wide & Deep, batch 4096, 2 ps + 1 worker, against TensorFlow")
def wd_4096(lab):
    yield from _wide_deep(lab, "wd-4096", "synthetic-wide-deep-4096.toml", 4096, "adagrad", times=3, cpu_us=3, beside_us=10.1)


@row("wd-adam-512", "Wide & Deep with Adam, batch 512, against TensorFlow")
def wd_adam_512(lab):
    yield from _wide_deep(lab, "wd-adam-512", "synthetic-wide-deep-512-adam.toml", 512, "adam", times=30)


def _wide_deep(lab, name, job, batch, optimizer, times, cpu_us=None, beside_us=None):
    """Measures in turns Downpour, and TensorFlow with 10 steps packed in a function or with one. The best run of each side counts.

    The work done per CPU second differs between machines and days. The bound `cpu_us` was set on a machine where TensorFlow
    with 10 packed steps takes `beside_us` per example. The bound is scaled by TensorFlow's CPU time in this run.
    """
    data = zipf_clicks(lab)
    python = venv_python(lab, TENSORFLOW)
    warm(data / "train.tsv")
    ours, theirs = [], []
    for pack in (10, 1, 10):
        ours.append(_train_wide_deep(lab, name, job, data))
        theirs.append(tensorflow_rate(lab, name, python, batch, optimizer, pack))
    best, rival = max(ours, key=lambda run: run["ex_s"]), max(theirs, key=lambda run: run["ex_s"])
    told = "; ".join(f"{figure(run['ex_s'])} and {run['cpu_us_per_ex']:.1f} CPU us with {run['pack']} packed" for run in theirs)
    yield at_least("examples/s, against TensorFlow's", best["ex_s"] / rival["ex_s"], times, " x", f"{figure(best['ex_s'])} to {told}")
    if cpu_us is None:
        return
    least = min(run["cpu_us"] for run in ours)
    packed = min(run["cpu_us_per_ex"] for run in theirs if run["pack"] == 10)
    note = (f"{least:.2f} us here, where TensorFlow takes {packed:.1f} us and not {beside_us}; from the start of the first process to the "
            f"end of the last; from their own counts {min(run['cpu_us_told'] for run in ours):.2f} us")
    yield at_most(f"CPU of all processes, an example, where TensorFlow takes {beside_us} us", least * beside_us / packed, cpu_us, " us", note)


def _train_wide_deep(lab, name, job, data):
    ended = lab.train(name, job, "--set", "eval.source=[]", "--ps", 2, "--workers", 1, env={"DOWNPOUR_SYNTH": str(data)})
    summary = ended.summary()
    records = summary["records"]
    told = sum(process["cpu_seconds"] for process in summary["processes"])
    return {"ex_s": records / summary["train_seconds"], "cpu_us": ended.cpu_s / records * 1e6, "cpu_us_told": told / records * 1e6}


def tensorflow_rate(lab, name, python, batch, optimizer, pack, workers=1):
    """Trains Wide & Deep 64-32 with 2 ps and `workers` of ParameterServerStrategy, `pack` steps in a function."""
    command = [python, lab.peer("tensorflow/bench_train.py"), "--model", "wd", "--batch", batch, "--opt", optimizer, "--ps", 2, "--workers", workers, "--pack", pack,
               "--logdir", lab.row_folder(name)]
    # The script exits with 0 even if it fails. Only a line of JSON means success.
    return lab.run(name, command, 900, {"CUDA_VISIBLE_DEVICES": ""}, lab.row_folder(name)).summary()


MLP_ROWS = 61_440  # whole steps of both global batches
MLP_EPOCHS = 3
MLP_JOB = """
data = { source = "arrays", format = "npy", shuffle = "off", fields = { x = { shape = [784] }, y = { type = "int64" } } }
model = { preset = "softmax_mlp", inputs = ["x"], target = "y", units = [128, 10] }
optimizer = { type = "adam", learning_rate = 0.001 }
train = { mode = "sync", replicas = 2, batch_size = 128 }
"""
MAKE_ARRAYS = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[1])
import models
for name, values in zip("xy", models.mlp_batches(1, int(sys.argv[2]))):
    np.save(name + ".npy", values[0])
"""


@row("mwms", "MLP 784-128-10 with Adam in synchronous steps, 2 workers, each with a ps, against MultiWorkerMirroredStrategy of 2 workers")
def mwms(lab):
    """Runs both sides in turns. The medians of three turns count."""
    python, script = venv_python(lab, TENSORFLOW), lab.peer("tensorflow/bench_mwms.py")
    folder = lab.row_folder("mwms")
    arrays = folder / "arrays"
    arrays.mkdir()
    lab.run("mwms", [python, "-c", MAKE_ARRAYS, script.parent, MLP_ROWS], 300, cwd=arrays).expect()
    warm(arrays / "x.npy")
    (folder / "job.toml").write_text(MLP_JOB)
    for batch, steps in ((256, 600), (2048, 120)):
        turns = [(_train_mlp(lab, batch, "ipc"), _mirrored(lab, python, script, batch, steps)) for _ in range(ROUNDS)]
        tcp_rate, tcp_us = _train_mlp(lab, batch, "tcp")
        rates, cpu = ([median([turn[side][i] for turn in turns]) for side in (0, 1)] for i in (0, 1))
        yield at_least(f"global batch {batch}: examples/s, against TensorFlow's", median([ours[0] / theirs[0] for ours, theirs in turns]), 2, " x",
                       f"{figure(rates[0])} to {figure(rates[1])}; {cpu[0]:.1f} and {cpu[1]:.1f} CPU us an example; "
                       f"over tcp with keys {figure(tcp_rate)} and {tcp_us:.1f} CPU us; medians of {ROUNDS} turns")


def _train_mlp(lab, batch, transport):
    """Returns examples/s, and the CPU microseconds of all processes per example."""
    summary = lab.train("mwms", lab.row_folder("mwms") / "job.toml", "--ps", "in_workers", "--workers", 2, "--transport", transport, "--epochs", MLP_EPOCHS,
                        "--set", f"train.batch_size={batch // 2}").summary()
    records = summary["records"]
    if records != MLP_ROWS * MLP_EPOCHS:
        raise Broken(f"{records} records were trained, not {MLP_ROWS * MLP_EPOCHS}")
    workers = [process for process in summary["processes"] if process["role"] == "worker"]  # and the ps in them
    return records / summary["train_seconds"], sum(process["cpu_seconds"] for process in workers) / records * 1e6


def _mirrored(lab, python, script, batch, steps):
    """Returns examples/s, and the CPU microseconds of both workers per example, after 30 steps of warming up."""
    command = [python, script, "--kind", "multi", "--workers", 2, "--batch", batch // 2, "--steps", steps]
    out = lab.run("mwms", command, 600, {"CUDA_VISIBLE_DEVICES": ""}, lab.row_folder("mwms")).out
    # Both workers print an object. If they print at once, both objects may be on one line.
    workers = [json.loads(text) for text in re.findall(r"\{[^{}]*\}", out)]
    if len(workers) != 2 or any(worker["global_batch"] != batch for worker in workers):
        raise Broken(f"{script.name} printed figures of {len(workers)} workers")
    return min(worker["ex_s"] for worker in workers), sum(worker["cpu_us_per_ex"] for worker in workers)
