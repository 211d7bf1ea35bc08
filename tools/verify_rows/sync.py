"""Synchronous training: the same model however many processes compute it, and its rate against asynchronous training. Local
training: what it pulls and pushes. The memory of a step."""
import gzip
import os
import re
import signal
import time

from .frame import Broken, at_least, at_most, figure, is_true, median, row
from .lab import descendants, outputs

ROW_SAME, ROW_RATE, ROW_MIXED, ROW_LOCAL, ROW_STAGED = "sync-same", "sync-rate", "mixed-rate", "local-bytes", "staged-memory"
SYNC = ("--set", "train.mode=sync", "--set", "train.replicas=4")
PROCESSES = {f"{workers} workers, {ps} ps": ("--workers", workers, "--ps", ps) for workers in (1, 2, 3) for ps in (1, 2)} \
    | {"2 workers, a ps in each": ("--workers", 2, "--ps", "in_workers")}
JOBS = {512: "synthetic-wide-deep-512.toml", 4096: "synthetic-wide-deep-4096.toml"}


def _unpacked(lab, name):
    """Unpacks a file of data into the row's folder, because only an uncompressed file is cut into shards."""
    path = lab.row_folder(ROW_SAME) / name.removesuffix(".gz").split("/")[-1]
    path.write_bytes(gzip.decompress(lab.data(name).read_bytes()))
    return path


def _predictions(lab, data):
    run = lab.row_folder(ROW_SAME) / "run"
    return lab.run(ROW_SAME, [lab.program(), "predict", run, "--data", data, "--quiet"]).expect().out


def _train_and_kill(lab, job, flags, victim, ps=2):
    """Trains, and kills a process once the first checkpoint is published."""
    run_dir = lab.row_folder(ROW_SAME) / "run"
    command = lab.train_command(job, run_dir, *flags, "--workers", 2, "--ps", ps, "--set", "train.checkpoint.every=20")
    events = run_dir / "events.jsonl"
    with lab.start(ROW_SAME, command, 300) as running:
        while running.is_running():
            text = events.read_text() if events.exists() and running.age_s() > 0.5 else ""
            victims = [pid for pid, program in descendants(running.pid).items() if program == victim]
            if '"published"' in text and len(victims) == 2:
                os.kill(victims[0], signal.SIGKILL)
                running.wait().expect()
                return
            time.sleep(0.005)
        running.wait().expect()
    raise Broken(f"the training had ended before a {victim} could be killed")


@row(ROW_SAME, "synchronous training of mnist, adult and clicks: the same predictions for any number of processes, and after kills")
def same(lab):
    images, _ = (_unpacked(lab, f"mnist/train-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1"))
    jobs = {"mnist, MLP": ("mnist.toml", (*SYNC, "--epochs", 1, "--set", f"data.source={images}"), lab.data("mnist/t10k-images-idx3-ubyte.gz")),
            "adult, Wide & Deep": ("adult.toml", (*SYNC, "--epochs", 2, "--set", "data.shard_records=2000"), lab.data("adult/adult.test"))}
    train, _ = lab.synth(ROW_SAME, "train.tsv", 200_000)
    clicks, _ = lab.synth(ROW_SAME, "test.tsv", 20_000, 1)
    jobs["clicks, Wide & Deep, several messages a batch"] = (JOBS[4096], (*SYNC, "--epochs", 1, "--set", f"data.source={train}", "--set", "eval.source=[]"), clicks)
    for title, (job, flags, test) in jobs.items():
        found = {}
        for name, processes in PROCESSES.items():
            lab.train(ROW_SAME, job, *flags, *processes)
            found[name] = _predictions(lab, test)
        lab.train(ROW_SAME, job, *flags, "--threads", 2)
        found["one process, 2 threads"] = _predictions(lab, test)
        for victim, ps in (("downpour-worker", 2), ("downpour-ps", 2), ("downpour-worker", "in_workers")):
            if test is clicks:  # its few steps end before the first checkpoint
                break
            _train_and_kill(lab, job, flags, victim, ps)
            found[f"kill -9 of a {victim}, ps {ps}"] = _predictions(lab, test)
        first = next(iter(found.values()))
        other = [name for name, predictions in found.items() if predictions != first]
        lines = first.count("\n")
        yield is_true(f"{title}: predictions", not other and lines >= 10_000, "the same, bit for bit",
                      f"others: {', '.join(other)}" if other else f"{lines:,} in {len(found)} runs")


def _in_turns(lab, row_name, batch, *sides):
    """Trains a job of JOBS with the flags of each side, three times in turns, so that other load affects all. Returns, for each
    turn, the summary of each side."""
    train, _ = lab.synth(row_name, "train.tsv", 2_000_000 if lab.full else 1_000_000)
    lab.synth(row_name, "test.tsv", 100_000, 1)
    env = {"DOWNPOUR_SYNTH": str(train.parent)}
    return [[lab.train(row_name, JOBS[batch], "--ps", 2, "--workers", 2, *flags, env=env).summary() for flags in sides] for _ in range(3)]


def _rate_and_auc(turns, title, other, rate_wanted, auc_wanted):
    """The rate and the AUC of the first of two sides, against the second. The medians of the turns count."""
    rates = [[summary["records"] / summary["train_seconds"] for summary in turn] for turn in turns]
    first, second = (median(list(column)) for column in zip(*rates))
    yield at_least(f"{title}examples/s, of {other}", median([a / b for a, b in rates]), rate_wanted, " x",
                   f"{figure(first)} of {figure(second)}; medians of 3 turns")
    aucs = [median([outputs(turn[i])["auc"] for turn in turns]) for i in range(2)]
    yield at_least(f"{title}AUC - AUC of {other}", aucs[0] - aucs[1], auc_wanted, note=f"{aucs[0]:.4f} - {aucs[1]:.4f}")


def _mode(mode, replicas):
    return ["--set", f"train.mode={mode}", "--set", f"train.replicas={replicas}"]


ASYNC = ["--set", "train.mode=async"]


@row(ROW_RATE, "Wide & Deep, 2 ps + 2 workers: the rate of synchronous training, of the asynchronous one")
def rate(lab):
    for batch, wanted in ((512, 0.6), (4096, 0.8)):
        for replicas in (2, 4):
            turns = _in_turns(lab, ROW_RATE, batch, _mode("sync", replicas), ASYNC)
            yield from _rate_and_auc(turns, f"batch {batch}, {replicas} replicas: ", "async", wanted, -0.002)


@row(ROW_MIXED, "Wide & Deep, 2 ps + 2 workers: the rate of mixed training, of the asynchronous one")
def mixed_rate(lab):
    for batch, wanted in ((512, 0.6), (4096, 0.8)):
        turns = _in_turns(lab, ROW_MIXED, batch, _mode("mixed", 2), ASYNC)
        yield from _rate_and_auc(turns, f"batch {batch}, 2 replicas: ", "async", wanted, -0.002)


@row(ROW_LOCAL, "Wide & Deep, 2 ps + 2 workers, batches of 512: local training of 4 replicas against synchronous training")
def local_bytes(lab):
    """Compares bytes, because the rate depends on the network."""
    turns = _in_turns(lab, ROW_LOCAL, 512, _mode("local", 4), _mode("sync", 4))
    sent = [median([(turn[i]["pulled_bytes"] + turn[i]["pushed_bytes"]) / turn[i]["records"] for turn in turns]) for i in range(2)]
    yield at_most("bytes pulled and pushed per example, of sync", sent[0] / sent[1], 0.5, " x", f"{figure(sent[0])} of {figure(sent[1])}")
    yield from _rate_and_auc(turns, "", "sync", 0.9, -0.02)


STAGED_JOB = """
data = { source = "rows.csv", format = "csv", columns = ["x", "y"], shard_records = 1, fields = { x = {}, y = { type = "int64" } } }
model = { preset = "softmax_mlp", inputs = ["x"], target = "y", units = [4096, 1024] }
optimizer = { type = "sgd", learning_rate = 0.001 }
train = { epochs = 1, batch_size = 1, mode = "sync", replicas = 64 }
"""


@row(ROW_STAGED, "synchronous steps of 64 replicas, 16 MiB of dense gradients each, 1 ps + 2 workers: what the ps keeps until the step")
def staged_memory(lab):
    """The ps itself tells what the gradients took. It also has the values that it sends, and what it shares with its workers: its
    largest resident size, without its tables and without that of a ps of the same job with a tiny layer, stands in the note."""
    folder = lab.row_folder(ROW_STAGED)
    (folder / "rows.csv").write_text("".join(f"{i / 256:.6f},{i % 1024}\n" for i in range(256)))
    job = folder / "job.toml"
    job.write_text(STAGED_JOB)

    def ps_bytes(*flags):
        processes = lab.train(ROW_STAGED, job, "--ps", 1, "--workers", 2, *flags, timeout_s=600).summary()["processes"]
        ps = next(process for process in processes if process["role"] == "ps")
        return ps["rss_bytes_max"] - ps["table_bytes"]

    idle, peak = ps_bytes("--set", "model.units=[1, 1024]"), ps_bytes()
    told = re.search(r"gradients of synchronous steps took at most ([\d.]+) MiB", (folder / "run/logs/ps-0.log").read_text())
    if told is None:
        raise Broken("the ps does not say how much memory the gradients took")
    yield at_most("gradients that the ps kept", float(told[1]) * (1 << 20) / 1e6, 64, " MB",
                  f"its memory without the tables: {peak / 1e6:.0f} MB, with a tiny layer {idle / 1e6:.0f} MB")
    command = lab.train_command(job, folder / "run", "--ps", 1, "--workers", 2, "--set", "train.backups=1", "--set", "cluster.ps_memory=512MB")
    refused = lab.run(ROW_STAGED, command)
    yield is_true("with backups, more than cluster.ps_memory", refused.code == 78 and "DP-2106" in refused.err, "refused at the start",
                  f"exit {refused.code}{', DP-2106' if 'DP-2106' in refused.err else ''}")
