"""Synchronous steps of a large dense layer against all_reduce of PyTorch with gloo, in the same run."""
from .frame import Broken, at_least, figure, median, row
from .lab import CHECKOUT, free_port
from .peers import venv_python

ROW = "allreduce"
TORCH = {"torch": "torch", "numpy": "numpy"}
TURNS = 3
LAYERS = {1: (1024, 256, 1000), 16: (4096, 1024, 100)}  # MiB of weights: inputs, units, steps
SHARDS = 40  # enough that both workers get a replica early
JOB = """
data = {{ source = "arrays-{mib}", format = "npy", shuffle = "off", shard_records = {shard}, fields = {{ x = {{ shape = [{inputs}] }}, y = {{ type = "int64" }} }} }}
model = {{ preset = "softmax_mlp", inputs = ["x"], target = "y", units = [{units}] }}
optimizer = {{ type = "sgd", learning_rate = 0.001 }}
train = {{ epochs = 1, mode = "sync", replicas = 2, batch_size = 1 }}
"""
MAKE_ARRAYS = """
import sys
import numpy as np
rows, inputs, units = map(int, sys.argv[1:])
rng = np.random.default_rng(1)
np.save("x.npy", rng.standard_normal((rows, inputs), np.float32))
np.save("y.npy", rng.integers(0, units, rows))
"""


@row(ROW, "dense gradients of 1 and 16 MiB, 2 workers, each with a ps, over tcp and over ipc: synchronous steps, against all_reduce with gloo")
def all_reduce(lab):
    """A batch has one record, so that a step is mostly push, commit and pull. tcp is without keys, because gloo has none; ipc is what
    `downpour train` chooses for processes of one machine. Runs all sides in turns. The medians of three turns count."""
    python = venv_python(lab, TORCH)
    folder = lab.row_folder(ROW)
    for mib, (inputs, units, steps) in LAYERS.items():
        arrays = folder / f"arrays-{mib}"
        arrays.mkdir()
        lab.run(ROW, [python, "-c", MAKE_ARRAYS, 2 * steps, inputs, units], cwd=arrays).expect()
        job = folder / f"job-{mib}.toml"
        job.write_text(JOB.format(mib=mib, shard=2 * steps // SHARDS, inputs=inputs, units=units))
        turns = [(_steps(_over_tcp(lab, job), steps), _steps(_over_ipc(lab, job), steps), _gloo(lab, python, mib << 18, steps))
                 for _ in range(TURNS)]
        for side, transport in enumerate(("tcp", "ipc")):
            rate, beside = (median([turn[of][0] for turn in turns]) * (mib << 20) / 1e6 for of in (side, 2))
            ours, theirs = (median([turn[of][1] for turn in turns]) / 1000 for of in (side, 2))
            compute = median([turn[side][2] for turn in turns])
            yield at_least(f"{mib} MiB over {transport}: bytes/s of a step, of gloo's", median([turn[side][0] / turn[2][0] for turn in turns]), 1,
                           " x", f"{figure(rate)} to {figure(beside)} MB/s; {ours:.1f} and {theirs:.1f} CPU ms a step of all processes; "
                           f"computing takes {compute:.0%} of the step; medians of {TURNS} turns")


def _over_tcp(lab, job):
    return lab.train_by_hand(ROW, job, {"cluster.ps": "in_workers", "cluster.workers": 2}, insecure=True)


def _over_ipc(lab, job):
    return lab.train(ROW, str(job), "--ps", "in_workers", "--workers", 2, "--transport", "ipc", "--threads", 2).summary()


def _steps(summary, steps):
    """Returns steps/s, the CPU microseconds of all processes per step, and the share of the time in which the busier worker computes."""
    if summary["records"] != 2 * steps:
        raise Broken(f"{summary['records']} records were trained, not {2 * steps}")
    seconds = summary["train_seconds"]
    workers = [process for process in summary["processes"] if process["role"] == "worker"]  # and the ps in them
    compute_s = max(process["work"]["compute_seconds"] for process in workers)
    return steps / seconds, sum(process["cpu_seconds"] for process in workers) / steps * 1e6, compute_s / seconds


def _gloo(lab, python, floats, steps):
    """Returns steps/s, and the CPU microseconds of both processes per step."""
    command = [python, CHECKOUT / "tools/verify_rows/gloo_all_reduce.py"]
    port = free_port()
    with lab.start(ROW, [*command, 1, port, floats, steps]) as other:
        found = lab.run(ROW, [*command, 0, port, floats, steps]).expect().summary()
        other.wait().expect()
    return found["steps_s"], 2 * found["cpu_us"]
