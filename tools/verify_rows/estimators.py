"""The Python package: arrays in memory beside the same job from files, a DataFrame beside LightGBM, and a client that dies."""
import contextlib
import json
import os
import signal
import time

from .frame import Broken, at_least, at_most, figure, is_true, median, row
from .lab import CHECKOUT, balanced, outputs
from .peers import TENSORFLOW, venv_python
from .rivals import tensorflow_rate

SCRIPT = CHECKOUT / "tools/verify_rows/estimator_figures.py"
PACKAGES = {name: name for name in ("numpy", "scipy", "pyarrow")}
TORCH = {name: name for name in ("numpy", "torch")}
FRAPPE_RECORDS = 57722
TABLES = {"numpy": "numpy", "pandas": "pandas", "sklearn": "scikit-learn", "lightgbm": "lightgbm"}


def _python_env(lab):
    """The environment in which Python finds the package of this checkout."""
    return {"DOWNPOUR_LIBRARY": str(lab.library()), "PYTHONPATH": str(CHECKOUT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}


def _figures(lab, name, packages, *arguments):
    return lab.run(name, [venv_python(lab, packages), SCRIPT, *arguments], 900, _python_env(lab)).expect().summary()


@row("python-memory", "logistic regression of 32 numbers a row: arrays in memory, against the same job from .npy")
def python_memory(lab):
    """The medians of three turns count. Peak memory is that of the process, beyond what it had with the data before the fit."""
    folder = lab.row_folder("python-memory")
    rates, grown = {}, {}
    for _ in range(3):
        for kind in ("numpy", "arrow", "csr"):
            fit = _figures(lab, "python-memory", PACKAGES, "fit", kind, folder)
            rates.setdefault(kind, []).append(fit["rows_per_s"])
            grown.setdefault(kind, []).append(fit["grown"])
        summary = lab.train("python-memory", str(folder / "npy.toml"), "--threads", 1).summary()
        rates.setdefault("npy", []).append(summary["records"] / summary["train_seconds"])
    for kind, shares in grown.items():
        share_of_npy = median([a / b for a, b in zip(rates[kind], rates["npy"])])
        yield at_least(f"{kind}: rows/s, of .npy", share_of_npy, 0.9, " x", f"{figure(median(rates[kind]))} of {figure(median(rates['npy']))}; medians of 3 turns")
        yield at_most(f"{kind}: growth of the peak memory, of the size of the data", median(shares), 0.9, " x", "a copy of the data would be 1")


@row("python-adult", "adult from a DataFrame with categories, beside LightGBM with its defaults; a tiny fit")
def python_adult(lab):
    folder = lab.data("adult/adult.data").parent
    scores = _figures(lab, "python-adult", TABLES, "adult", folder, 3)
    (auc, logloss), (their_auc, their_logloss) = scores["downpour"], scores["lightgbm"]
    yield at_least("test AUC", auc, 0.927, note=f"mean of 3 seeds; LightGBM {their_auc:.4f}")
    yield at_most("test logloss - LightGBM's", logloss - their_logloss, 0, note=f"{logloss:.4f} - {their_logloss:.4f}")
    yield at_most("fit of 40 rows", _figures(lab, "python-adult", TABLES, "tiny")["ms"], 50, " ms", "median of 20")


@row("python-parquet", "fit on Parquet files: 1 GB of numbers, and adult")
def python_parquet(lab):
    adult = lab.data("adult/adult.data").parent
    got = _figures(lab, "python-parquet", PACKAGES | TABLES, "parquet", lab.row_folder("python-parquet"), adult)
    yield at_least("rate of reading, of pyarrow.parquet.read_table", got["share"], 0.5, " x", f"{got['megabytes']:.0f} MB; medians of 3")
    yield is_true("records of an epoch", got["records"] == got["rows"], f"{got['rows']:,}", f"{got['records']:,}")
    yield is_true("adult: predictions as from a DataFrame", got["same"], "equal bits", "equal bits" if got["same"] else "others")


@contextlib.contextmanager
def _job_of_clients(lab, name, job, *flags):
    """Starts a job whose workers are clients. Yields the process, and the arguments by which a client finds it."""
    command = lab.train_command(job, lab.row_folder(name) / "run", "--ps", 2, *flags)
    with lab.start(name, command, 900) as process:
        while '"event":"clients"' not in process.errors():
            if not process.is_running():
                process.wait().expect()
            time.sleep(0.05)
        address = next(event for event in map(json.loads, process.errors().splitlines()) if event["event"] == "clients")
        yield process, [address["chief"], *([address["keys"]] if address["keys"] else [])]


def _own_model(lab, python, kill):
    """Trains docs/examples/own-model with 2 ps and 2 clients. `kill`: ends one client with SIGKILL at a third of the time, and
    starts another one. Returns the summary."""
    folder = CHECKOUT / "docs/examples/own-model"
    env = _python_env(lab)
    with contextlib.ExitStack() as stack:
        job, address = stack.enter_context(_job_of_clients(lab, "own-model", folder / "frappe.toml"))
        client = [python, folder / "torch_network.py", *address]
        clients = [stack.enter_context(lab.start("own-model", client, 900, env)) for _ in range(2)]
        events = lab.row_folder("own-model") / "run/events.jsonl"
        killed = False
        while job.is_running():
            if kill and not killed and events.read_text().count('"event":"complete"') >= 2:
                time.sleep(0.5)
                os.kill(clients[0].pid, signal.SIGKILL)
                stack.enter_context(lab.start("own-model", client, 900, env))
                killed = True
            time.sleep(0.02)
        if kill and not killed:
            raise Broken("the job ended before a client was killed")
        return job.wait().expect().summary()


@row("own-model", "a network of PyTorch on frappe, 2 ps + 2 clients, one of which is killed")
def own_model(lab):
    lab.data("frappe/train.libfm")
    python = os.environ.get("DOWNPOUR_TORCH") or venv_python(lab, TORCH)
    plain, killed = [], []
    for _ in range(3):
        plain.append(_own_model(lab, python, kill=False))
        killed.append(_own_model(lab, python, kill=True))
    wrong = "; ".join(filter(None, (balanced(summary, FRAPPE_RECORDS) for summary in killed)))
    yield is_true("accounts after kill -9 of a client", not wrong, "each record once", wrong or "each record once", "3 runs of 5 epochs")
    aucs = [[outputs(summary)["auc"] for summary in each] for each in (plain, killed)]
    yield at_most("AUC - AUC without a kill, magnitude", abs(median(aucs[0]) - median(aucs[1])), 0.002, note=f"{median(aucs[1]):.4f}, {median(aucs[0]):.4f}; medians of 3")


CLIENT_ROWS, CLIENT_EPOCHS = 400_000, 3
CLIENT_JOB = """
data.source = "arrays"
data.format = "npy"
data.shuffle = "off"
data.fields.ids = {{ type = "int64", shape = [-1], transform = [{{ op = "hash", buckets = 1048576 }}] }}
data.fields.numbers = {{ shape = [13] }}
data.fields.y = {{}}
model.outputs = [{{ name = "click", loss = "logistic", target = "y" }}]
model.variables = [
  {{ name = "wide", fields = ["ids"], dim = 1, init = {{ type = "zero" }} }},
  {{ name = "emb", fields = ["ids"], dim = 16 }},
  {{ name = "line", shape = [13] }},
  {{ name = "kernel0", shape = [64, 429] }}, {{ name = "bias0", shape = [64] }},
  {{ name = "kernel1", shape = [32, 64] }}, {{ name = "bias1", shape = [32] }},
  {{ name = "kernel2", shape = [1, 32] }}, {{ name = "bias2", shape = [1] }} ]
optimizer = {{ type = "adagrad", learning_rate = 0.02 }}
train = {{ epochs = {epochs}, batch_size = 512, reduction = "sum", in_flight = 4 }}
"""


@row("own-model-rate", "Wide & Deep 64-32 of PyTorch, batch 512, 2 ps + 2 clients, against TensorFlow")
def own_model_rate(lab):
    """In turns Downpour's ps with two clients of PyTorch, and TensorFlow with two workers and 10 steps packed in a function. The
    medians of three turns count."""
    name = "own-model-rate"
    script = CHECKOUT / "tools/verify_rows/client_wide_deep.py"
    python = os.environ.get("DOWNPOUR_TORCH") or venv_python(lab, TORCH)
    rival = venv_python(lab, TENSORFLOW)
    folder = lab.row_folder(name)
    (folder / "arrays").mkdir(exist_ok=True)
    lab.run(name, [python, script, "data", folder / "arrays", CLIENT_ROWS]).expect()
    (folder / "job.toml").write_text(CLIENT_JOB.format(epochs=CLIENT_EPOCHS))
    ours, theirs, computed = [], [], []
    for _ in range(3):
        with contextlib.ExitStack() as stack:
            job, address = stack.enter_context(_job_of_clients(lab, name, folder / "job.toml"))
            clients = [stack.enter_context(lab.start(name, [python, script, "train", *address], 900, _python_env(lab)))
                       for _ in range(2)]
            told = [client.wait().expect().summary() for client in clients]
            summary = job.wait().expect().summary()
        if wrong := balanced(summary, CLIENT_ROWS):
            raise Broken(wrong)
        ours.append(CLIENT_ROWS * CLIENT_EPOCHS / max(client["seconds"] for client in told))
        computed.append(sum(client["records"] / client["compute"] for client in told))
        theirs.append(tensorflow_rate(lab, name, rival, 512, "adagrad", 10, workers=2)["ex_s"])
    yield at_least("examples/s, against TensorFlow's", median(ours) / median(theirs), 3, " x",
                   f"{figure(median(ours))} to {figure(median(theirs))}; {figure(median(computed))} if the clients only computed; "
                   "medians of 3 turns")
