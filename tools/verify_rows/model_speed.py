"""The training speed of the models of clicks against PyTorch, in the same run."""
import json
import os

from .frame import Broken, at_least, at_most, figure, is_true, median, row
from .lab import CHECKOUT
from .peers import venv_python, warm

ROW = "model-speed"
TORCH = {"torch": "torch", "numpy": "numpy"}
# Threads of OpenMP spin for milliseconds while they wait. On a busy machine that takes the core from the thread they wait for.
TORCH_ENV = {"GOMP_SPINCOUNT": "1000"}
TURNS = 3
ROWS, FIELDS, IDS, BATCH = 204_800, 26, 100_000, 2048
EPOCHS = 2  # the first one makes the rows of the tables, which PyTorch has from the start
MODELS = {"wide_deep": "Wide & Deep", "deepfm": "DeepFM", "dcn_v2": "DCN-v2", "dlrm": "DLRM"}
TOWERS = {(256, 128, 64): 1.5, (64, 32): 3}  # units: times PyTorch's rate
FIELD = 'C{} = {{ type = "int64", column = "{}", transform = ["identity"] }}\n'
JOB = """
data.source = "rows.npy"
data.format = "npy"
data.shuffle = "off"
model = {{ preset = "{model}", target = "label", dim = 16, units = {units} }}
optimizer = {{ type = "adagrad", learning_rate = 0.02 }}
train = {{ epochs = {epochs}, batch_size = {batch}, reduction = "mean" }}
[data.fields]
label = {{ column = "{fields}" }}
"""


@row(ROW, "26 fields x 16, batch 2048, one process: Wide & Deep, DeepFM, DCN-v2 and DLRM against PyTorch")
def model_speed(lab):
    """Both sides train the same rows in the same order with Adagrad, in turns. The medians of three turns count. PyTorch's rate is
    the better one of torch.compile and of eager mode, in each turn. Downpour's rate is that of the second epoch."""
    python = venv_python(lab, TORCH)
    folder = lab.row_folder(ROW)
    lab.run(ROW, [python, CHECKOUT / "tools/verify_rows/click_ids.py", folder / "rows.npy", ROWS, FIELDS, IDS]).expect()
    warm(folder / "rows.npy")
    losses, sizes = [], []
    for units, wanted in TOWERS.items():
        for model, title in MODELS.items():
            job = folder / f"{model}-{len(units)}.toml"
            job.write_text(JOB.format(model=model, units=list(units), batch=BATCH, fields=FIELDS, epochs=EPOCHS)
                           + "".join(FIELD.format(i, i) for i in range(FIELDS)))
            turns = [(_downpour(lab, job), _torch(lab, python, model, units)) for _ in range(TURNS)]
            losses += [ours["loss"] - theirs["loss"] for ours, theirs in turns]
            sizes.append((_parameters(lab), (turns[-1][1]["dense"], turns[-1][1]["sparse"])))
            yield _rate(f"{title}, tower {'-'.join(map(str, units))}: examples/s, of PyTorch's", turns, wanted)
    yield at_most("training loss of an epoch - PyTorch's, magnitude", max(map(abs, losses)), 0.01, note=f"largest of {len(losses)}")
    other = [f"{a} and {b}" for a, b in sizes if a != b]
    yield is_true("parameters, dense and of the rows in use", not other, "as many as PyTorch", "; ".join(other) or f"equal in {len(sizes)} models",
                  f"{min(a[0] for a, _ in sizes):,} to {max(a[0] for a, _ in sizes):,} dense ones")


def _rate(what, turns, wanted):
    rates, cpu = ([median([turn[side][key] for turn in turns]) for side in (0, 1)] for key in ("ex_s", "cpu_us"))
    peak = max(theirs["peak"] for _, theirs in turns)
    share = [6 * turns[0][1]["macs"] * rate / peak for rate in rates]  # one product forward, two backward, of two operations each
    ratios = [ours["ex_s"] / theirs["ex_s"] for ours, theirs in turns]
    modes = sorted({theirs["mode"] for _, theirs in turns})
    return at_least(what, median(ratios), wanted, " x",
                    f"{figure(rates[0])} to {figure(rates[1])} ({' or '.join(modes)}); {cpu[0]:.2f} and {cpu[1]:.2f} CPU us an example; "
                    f"{share[0]:.1%} and {share[1]:.1%} of {peak / 1e9:.0f} GFLOP/s; medians of {len(turns)} turns, "
                    f"ratios {min(ratios):.3g} to {max(ratios):.3g}")


def _downpour(lab, job):
    summary = lab.train(ROW, job, timeout_s=900).summary()
    if summary["records"] != ROWS * EPOCHS:
        raise Broken(f"{summary['records']} records were trained, not {ROWS * EPOCHS}")
    cpu_s = summary["processes"][0]["cpu_seconds"]  # ps and worker are one process
    first, last = summary["accounts"]
    return {"ex_s": ROWS / last["seconds"], "cpu_us": cpu_s / summary["records"] * 1e6, "loss": first["loss"]}


def _torch(lab, python, model, units):
    folder = lab.row_folder(ROW)
    command = [python, CHECKOUT / "tools/verify_rows/torch_models.py", folder / "rows.npy", model, FIELDS, IDS, ",".join(map(str, units))]
    found = lab.run(ROW, command, 1800, TORCH_ENV | {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor")}).expect().summary()
    mode = max(("compiled", "eager"), key=lambda mode: found[mode]["ex_s"])
    return {**found, **found[mode], "mode": mode}


def _parameters(lab):
    """Returns how many dense parameters the model of the last run has, and how many in its rows."""
    run = lab.row_folder(ROW) / "run"
    out = lab.row_folder(ROW) / "model.safetensors"
    lab.run(ROW, [lab.program(), "export", run, "--out", out]).expect()
    with open(out, "rb") as file:
        arrays = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    os.remove(out)
    dense = rows = 0
    for name, array in arrays.items():
        if name == "__metadata__" or name.endswith(("/keys", "/offset", "/scale")):
            continue
        size = 1
        for n in array["shape"]:
            size *= n
        if f"{name}/keys" in arrays:
            rows += size
        else:
            dense += size
    return dense, rows
