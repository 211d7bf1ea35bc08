"""Compares exported ONNX models with `downpour predict`.

onnx_models.py BIN FOLDER, where BIN has Downpour's programs. For each preset, and for models with every type of layer
and loss: trains, exports, checks the file with the onnx package, and runs the program of docs/onnx.md with onnxruntime
on 1,000 records. Also begins runs with files that NumPy and the safetensors library have written. Prints each
comparison. Exits with 1 if one has failed.
"""
import json
import re
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy
from harness import FOLDER, check, downpour, failed

DOCS = Path(__file__).resolve().parents[2] / "docs"
RECORDS, TOLERANCE = 1000, 1e-5


def documented():
    """Returns the functions of the program in docs/onnx.md."""
    program = re.search(r"```python\n(.*?)```", (DOCS / "onnx.md").read_text(), re.DOTALL).group(1)
    functions = {}
    exec(compile(program, "docs/onnx.md", "exec"), functions)  # noqa: S102
    return functions


def make_data(rng):
    """Writes RECORDS JSON lines, and returns the columns as a model reads them."""
    numbers = rng.standard_normal((RECORDS, 3)).astype(np.float32).round(4)
    unit = rng.random((RECORDS, 2)).astype(np.float32).round(4)
    sparse = rng.integers(0, [7, 30, 200, 5], (RECORDS, 4))
    tags = [sorted(rng.choice(40, rng.integers(0, 6), replace=False).tolist()) for _ in range(RECORDS)]
    score = numbers.sum(1) + np.sin(sparse).sum(1) + np.array([len(each) for each in tags]) - 2
    click = (rng.random(RECORDS) < 1 / (1 + np.exp(-score))).astype(int)
    lines, columns = [], {}
    for i in range(RECORDS):
        record = {f"n{j}": float(numbers[i, j]) for j in range(3)} | {"unit": unit[i].tolist()}
        record |= {f"s{j}": int(sparse[i, j]) for j in range(4)} | {"tags": tags[i]}
        record |= {"click": int(click[i]), "price": 1000 + 50 * float(score[i]), "count": int(abs(score[i])), "kind": int(sparse[i, 0] % 3)}
        lines.append(json.dumps(record))
    (FOLDER / "rows.jsonl").write_text("\n".join(lines) + "\n")
    columns |= {f"n{j}": numbers[:, j] for j in range(3)} | {"unit": unit}
    columns |= {f"s{j}": [[(int(key), 1)] for key in sparse[:, j]] for j in range(4)}
    columns["tags"] = [[(key, 1) for key in each] for each in tags]
    return columns


def job_of(model):
    keys = ", ".join(f's{j} = {{ type = "int64", transform = ["identity"] }}' for j in range(4))
    return f"""
data.source = "rows.jsonl"
data.format = "jsonl"
data.fields = {{ {keys}, n0 = {{}}, n1 = {{}}, n2 = {{}}, unit = {{ shape = [2] }}, tags = {{ type = "int64", shape = [-1] }}, click = {{}}, price = {{}}, count = {{}}, kind = {{ type = "int64" }} }}
{model}
train = {{ epochs = 3, batch_size = 50 }}
"""


def preset(name, options=""):
    return f'model = {{ preset = "{name}", inputs = ["s0", "s1", "s2", "s3", "n0", "n1", "n2", "tags"], target = "click", dim = 8, units = [32, 16]{options} }}'


LAYERS = """
model.layers = [
  { name = "wide", type = "linear", inputs = ["s0", "tags", "n0", "n1"], units = [2] },
  { name = "plain", type = "linear", inputs = ["n2", "s3"], bias = false },
  { name = "keys", type = "linear", inputs = ["s1", "tags"], units = [2] },
  { name = "emb", type = "embedding", inputs = ["s0", "s1", "s2"], dim = 4, table = "shared", dropout = 0.1 },
  { name = "bag", type = "embedding", inputs = ["tags"], dim = 4, pool = "mean" },
  { name = "again", type = "embedding", inputs = ["tags"], dim = 4, table = "bag" },
  { name = "fm", type = "fm", inputs = ["s1", "tags"], dim = 4 },
  { name = "fm_dropped", type = "fm", inputs = ["s0", "s3"], dim = 4, dropout = 0.2 },
  { name = "bins", type = "piecewise", inputs = ["unit", "n0"], bins = 5 },
  { name = "pairs", type = "dot", inputs = ["emb", "bag", "again"], dim = 4 },
  { name = "deep", type = "dense", inputs = ["emb", "n0", "unit"], units = [12, 8], activation = "gelu", last = "tanh", dropout = 0.1 },
  { name = "leaky", type = "dense", inputs = ["bins", "pairs"], units = [8], last = "leaky_relu" },
  { name = "silu", type = "silu", inputs = ["deep", "leaky"] },
  { name = "gelu", type = "gelu", inputs = ["leaky"] },
  { name = "tanh", type = "tanh", inputs = ["bag"] },
  { name = "relu", type = "relu", inputs = ["pairs"] },
  { name = "leaky2", type = "leaky_relu", inputs = ["n1"] },
  { name = "sigmoid", type = "sigmoid", inputs = ["wide"] },
  { name = "norm", type = "layer_norm", inputs = ["silu", "n2"] },
  { name = "thin", type = "dropout", inputs = ["norm", "keys"], rate = 0.2 },
  { name = "crossed", type = "cross", inputs = ["bag", "n0", "deep"], depth = 2 },
  { name = "ranked", type = "cross", inputs = ["bag", "unit"], depth = 2, rank = 2, bias = false },
  { name = "joined", type = "concat", inputs = ["thin", "crossed", "ranked", "gelu", "tanh", "relu", "leaky2", "sigmoid"] },
  { name = "one", type = "dense", inputs = ["joined"], units = [1], bias = false },
  { name = "logit", type = "add", inputs = ["one", "plain", "fm", "fm_dropped"] },
  { name = "margin_", type = "dense", inputs = ["joined"], units = [1] },
  { name = "rate_", type = "dense", inputs = ["joined"], units = [1] },
  { name = "value_", type = "dense", inputs = ["joined"], units = [1] },
  { name = "classes_", type = "dense", inputs = ["joined"], units = [3] } ]
model.outputs = [
  { name = "p", input = "logit", loss = "logistic", target = "click", offset = 0.25 },
  { name = "margin", input = "margin_", loss = "hinge", target = "click", offset = "auto" },
  { name = "value", input = "value_", loss = "huber", target = "price", offset = "auto", scale = "auto" },
  { name = "rate", input = "rate_", loss = "poisson", target = "count", offset = "auto" },
  { name = "class", input = "classes_", loss = "softmax_cross_entropy", target = "kind" } ]
"""

MODELS = {
    "wide_deep": preset("wide_deep"),
    "wide_deep_bins": preset("wide_deep", ", bins = 8").replace('"n0", "n1", "n2"', '"unit"'),
    "deepfm": preset("deepfm"),
    "dcn_v2": preset("dcn_v2"),
    "dlrm": preset("dlrm"),
    "fm": 'model = { preset = "factorization_machine", inputs = ["s0", "s1", "s2", "s3", "tags"], target = "click", dim = 8 }',
    "regression": preset("wide_deep", ', loss = "squared", scale = "auto", offset = "auto"').replace('"click"', '"price"'),
    "softmax_mlp": 'model = { preset = "softmax_mlp", inputs = ["n0", "n1", "n2", "unit"], target = "kind", units = [16, 3] }',
    "layers": LAYERS,
}


def compare(name, model, columns, predict):
    job = FOLDER / f"{name}.toml"
    job.write_text(job_of(model))
    downpour("train", job, "--fresh", "--quiet")
    run = FOLDER / "runs" / name
    downpour("export", run, "--out", FOLDER / f"{name}.npz")
    file = FOLDER / f"{name}.onnx"
    downpour("export", run, "--out", FOLDER / "other", "--format", "onnx")
    (FOLDER / "other").rename(file)
    loaded = onnx.load(file)
    onnx.checker.check_model(loaded, full_check=True)
    assert loaded.ir_version == 8 and [each.version for each in loaded.opset_import] == [17]
    with np.load(FOLDER / f"{name}.npz") as arrays:
        found = predict(str(file), arrays, columns)
    metadata = {each.key: each.value for each in loaded.metadata_props}
    outputs = json.loads(metadata["downpour.outputs"])
    downpour("predict", run, "--data", FOLDER / "rows.jsonl", "--quiet", "--out", FOLDER / "predictions.npy")
    downpour("predict", run, "--raw", "--data", FOLDER / "rows.jsonl", "--quiet", "--out", FOLDER / "raw.npy")
    wanted, raw = np.load(FOLDER / "predictions.npy"), np.load(FOLDER / "raw.npy")
    assert wanted.shape == (RECORDS, sum(each["width"] for each in outputs)), wanted.shape
    assert wanted.std(0).min() > 1e-3, "the model predicts a constant"
    at = 0
    for each in outputs:
        part = wanted[:, at:at + each["width"]]
        at += each["width"]
        difference = np.abs(found[each["name"]] - part)
        check(f"{name}: {each['name']}", (difference / np.maximum(1, np.abs(part))).max(), TOLERANCE)
        difference = np.abs(found[each["raw"]] - raw[:, at - each["width"]:at])
        check(f"{name}: {each['raw']}", (difference / np.maximum(1, np.abs(part))).max(), TOLERANCE)
    assert onnxruntime.InferenceSession(str(file)).get_modelmeta().producer_name == "downpour"


def check_start():
    """Begins runs with files that NumPy and the safetensors library have written: other types, and another order of rows."""
    downpour("export", FOLDER / "runs/deepfm", "--out", FOLDER / "w.safetensors")
    arrays = safetensors.numpy.load_file(FOLDER / "w.safetensors")
    with np.load(FOLDER / "deepfm.npz") as same:
        check("safetensors and npz", max(np.abs(same[name].astype(float) - array).max() for name, array in arrays.items()), 0)
    changed = {}
    for name, array in arrays.items():
        if name + "/keys" in arrays:
            changed[name] = array[::-1]
        elif name.endswith("/keys"):
            changed[name] = array[::-1].astype(np.int64 if array.max() < 2**63 else np.uint64)
        else:
            changed[name] = array.astype(np.float64)
    with np.load(FOLDER / "deepfm.npz") as exported:
        np.savez_compressed(FOLDER / "changed.npz", **dict(exported) | changed)  # with job.toml
    safetensors.numpy.save_file({name: np.ascontiguousarray(array) for name, array in changed.items()}, FOLDER / "changed.safetensors")
    downpour("predict", FOLDER / "runs/deepfm", "--data", FOLDER / "rows.jsonl", "--quiet", "--out", FOLDER / "wanted.npy")
    for ending in ("npz", "safetensors"):
        job = FOLDER / f"start_{ending}.toml"
        model = job_of(MODELS["deepfm"]).replace("epochs = 3", f'epochs = 1, warm_start = {{ file = "changed.{ending}" }}')
        job.write_text("seed = 5\noptimizer = { type = \"adagrad\", learning_rate = 1e-30 }\n" + model)
        downpour("train", job, "--fresh", "--quiet")
        downpour("predict", FOLDER / f"runs/start_{ending}", "--data", FOLDER / "rows.jsonl", "--quiet", "--out", FOLDER / "again.npy")
        check(f"a start from {ending}", np.abs(np.load(FOLDER / "again.npy") - np.load(FOLDER / "wanted.npy")).max(), 1e-6)


def main():
    columns = make_data(np.random.default_rng(1))
    predict = documented()["predict"]
    for name, model in MODELS.items():
        compare(name, model, columns, predict)
    check_start()
    return 1 if failed else 0


sys.exit(main())
