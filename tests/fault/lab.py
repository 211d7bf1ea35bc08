"""Tools for the cases: folders, programs, jobs of the right length, proofs, and a small disk."""
import ctypes
import os
import subprocess
import time
from pathlib import Path

from cluster import Cluster, Counter, balanced, check


class Skipped(Exception):
    """This machine can't run the case."""


class Lab:
    """The folder, the programs and the options of one case."""

    def __init__(self, folder, asked):
        self.folder, self.bin = folder, Path(asked.bin).resolve()
        self.long = asked.long or bool(os.environ.get("DP_FAULT_LONG"))
        self.seconds, self.job, self.megabytes = asked.seconds, asked.job, asked.megabytes
        self.moments, self.seed = asked.moments, asked.seed

    def pick(self, short, long):
        return long if self.long else short

    def counter(self, seconds, epochs=Counter.EPOCHS_MAX, **more):
        """Returns a counter model that trains for about that many seconds on this machine.

        Measures a small one first.
        """
        trial = Counter(self.new_folder("trial"), 20_000, 3, **more)
        with Cluster(self.bin, trial.folder, trial.job) as cluster:
            cluster.wait_until(lambda: cluster.events.times("view"), "a view")
            begun = time.monotonic()
            cluster.finish(120)
        rate = trial.records * trial.epochs / (time.monotonic() - begun)
        return Counter(self.new_folder("counter"), int(max(10_000, rate * seconds / epochs)), epochs, **more)

    def new_folder(self, name):
        folder = self.folder / name
        folder.mkdir()
        return folder

    def clicks(self, rows):
        folder = self.new_folder(f"clicks-{rows}")
        self.call("synth", folder / "train.svm", "--rows", rows, "--ids", 200, "--numeric", 4, "--categorical", 6)
        (folder / "job.toml").write_text(
            'data = { source = "train.svm", format = "libsvm", shard_records = 500 }\nmodel = { preset = "logistic_regression" }\n'
            'optimizer = { type = "ftrl", learning_rate = 0.1 }\ntrain = { epochs = 4, batch_size = 100, reduction = "sum" }\n'
            'eval = { holdout = 0.1 }\n')
        return folder / "job.toml"

    def call(self, *arguments):
        done = subprocess.run([str(part) for part in (self.bin / "downpour", *arguments)], capture_output=True, text=True, check=False, timeout=300)
        check(done.returncode == 0, f"downpour {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done


def prove(lab, cluster, counter, figures=None, timeout_s=180):
    """Waits for the end of the job, and checks that its account balances and every weight is exact.

    Returns figures.
    """
    summary = cluster.finish(timeout_s)
    balanced(summary, counter.records, counter.epochs)
    wrong = counter.wrong(lab.bin, cluster.run_dir)
    check(not wrong, wrong)
    check(not cluster.unasked, f"no process had a reason to end, but {'; '.join(cluster.unasked)}")
    return {"records": counter.records, "epochs": counter.epochs, "kills": cluster.kills, "weights": f"all {counter.epochs}",
            "duplicate_parts": summary["duplicate_parts"], "workers_lost": summary["workers_lost"], "ps_lost": summary.get("ps_lost"),
            **(figures or {})}


def resident_mb(pid):
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), 0.0)


class SmallDisk:
    """A tmpfs of a given size."""

    def __init__(self, path, megabytes):
        self.path, self.megabytes = path, megabytes
        self.libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        self.path.mkdir()
        if self.libc.mount(b"tmpfs", bytes(self.path), b"tmpfs", 0, f"size={self.megabytes}m".encode()) != 0:
            raise Skipped(f"can't mount a small disk: {os.strerror(ctypes.get_errno())}")
        return self

    def __exit__(self, *_):
        self.libc.umount2(bytes(self.path), 2)

    def fill(self):
        """Fills the disk to its last page."""
        with open(self.path / "filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                pass

    def free(self):
        (self.path / "filler").unlink()
