"""Training/serving skew: every op of a transform and every type of layer gives the same prediction in the evaluation of
the training, in `downpour predict`, in `downpour serve` and through the C interface."""

import csv
import json
import pathlib
import re
import subprocess
import urllib.request

import downpour as dp
import numpy as np
import pytest
from downpour._programs import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS, TOLERANCE = 1000, 1e-5
COLUMNS = ["label", "age", "price", "color", "section", "title", "clicks", "time"]

# Each op of docs/data.md: the numbers first, then those that make keys.
FIELDS = """
label   = {}
price   = { default = 0, transform = [{ op = "clip", min = 0 }, "log1p", "standardize"] }
rank    = { column = "price", default = 0, transform = [{ op = "quantile", intervals = 16 }] }
age     = { default = 40, transform = ["min_max", { op = "noise", stddev = 0.01 }] }
time    = { default = 1700000000, transform = ["standardize"] }
hour    = { column = "time", default = 1700000000, transform = [{ op = "quantile", intervals = 8 }] }
clicks  = { shape = [-1], default = 0, transform = [{ op = "pool", how = "mean" }, "log1p"] }
last    = { column = "clicks", shape = [-1], transform = [{ op = "pad", length = 3, keep = "last" }] }
band    = { column = "age", default = 40, transform = [{ op = "bucketize", boundaries = [18, 35, 65] }] }
color   = { type = "string", default = "", transform = [{ op = "vocabulary", words = ["red", "green", "blue"], unknown = "hash", buckets = 8 }] }
section = { type = "int64", default = 0, transform = [{ op = "identity", buckets = 10, default = 0 }] }
title   = { type = "string", default = "none", transform = [{ op = "tokens", separators = " ,.", lower = true, ngrams = 2 }, { op = "hash", buckets = 65536 }, { op = "truncate", length = 40 }, { op = "dropout", rate = 0.1 }] }
piece   = { column = "title", type = "string", default = "none", transform = ["tokens", "hash", { op = "crop", length = 3 }] }
taste   = { transform = [{ op = "cross", fields = ["color", "band"], buckets = 1000 }] }
"""
LAYERS = """
layers = [
  { name = "wide", type = "linear", inputs = ["color", "taste", "price"] },
  { name = "emb", type = "embedding", inputs = ["color", "section", "band"], dim = 4, table = "shared", dropout = 0.1 },
  { name = "bag", type = "embedding", inputs = ["title"], dim = 4, pool = "mean" },
  { name = "fm", type = "fm", inputs = ["piece", "section"], dim = 4 },
  { name = "bins", type = "piecewise", inputs = ["rank"], bins = 5 },
  { name = "pairs", type = "dot", inputs = ["emb", "bag"], dim = 4 },
  { name = "deep", type = "dense", inputs = ["emb", "bins", "age", "clicks", "last", "time", "hour"], units = [12, 8], activation = "relu", dropout = 0.1 },
  { name = "crossed", type = "cross", inputs = ["bag", "deep"], depth = 2, rank = 2 },
  { name = "sigmoid", type = "sigmoid", inputs = ["crossed"] },
  { name = "leaky", type = "leaky_relu", inputs = ["pairs"] },
  { name = "gelu", type = "gelu", inputs = ["bag"] },
  { name = "silu", type = "silu", inputs = ["deep"] },
  { name = "tanh", type = "tanh", inputs = ["deep"] },
  { name = "relu_", type = "relu", inputs = ["pairs"] },
  { name = "joined", type = "concat", inputs = ["sigmoid", "leaky", "gelu", "silu", "tanh", "relu_"] },
  { name = "norm", type = "layer_norm", inputs = ["joined"] },
  { name = "thin", type = "dropout", inputs = ["norm"], rate = 0.1 },
  { name = "tower", type = "dense", inputs = ["thin"], units = [1] },
  { name = "logit", type = "add", inputs = ["wide", "fm", "tower"] } ]
outputs = [{ name = "p", input = "logit", loss = "logistic", target = "label" }]
"""


def test_the_job_has_every_op_and_layer():
    """A new op or layer must be added to this test."""
    ops = set(re.findall(r'\.name = "(\w+)"', (ROOT / "shared/job/ops.h").read_text()))
    layers = set(re.findall(r'LayerInfo\{\.type = "(\w+)"', (ROOT / "shared/job/layers.h").read_text()))
    assert len(ops) >= 17 and len(layers) >= 17
    used = set(re.findall(r'op = "(\w+)"', FIELDS)) | set(re.findall(r'"(\w+)"', FIELDS))
    assert ops <= used
    assert layers <= set(re.findall(r'type = "(\w+)"', LAYERS))


def rows_of(seed):
    """Returns records as lists of texts; an empty one is a missing value."""
    rng = np.random.default_rng(seed)
    words = ["alpha", "Beta", "gamma,", "delta.", "x"]
    rows = []
    for _ in range(ROWS):
        age, price = rng.integers(10, 90), rng.normal(20, 30)
        color = rng.choice(["red", "green", "blue", "grey", "", "?"])
        title = " ".join(rng.choice(words, rng.integers(1, 6)))
        clicks = " ".join(map(str, rng.integers(0, 9, 4)))
        time = rng.uniform(0, 100)  # seconds, which float32 does not distinguish near 1.7e9
        label = int(rng.random() < 1 / (1 + np.exp(-(age - 50) / 10 - (color == "red") + len(title) / 10 - time / 20 + 2.5)))
        rows.append([
            label, age if rng.random() > 0.1 else "", rng.choice([round(price, 3), "", -999], p=[0.8, 0.1, 0.1]), color,
            rng.integers(0, 12), title if rng.random() > 0.1 else "", clicks,
            f"{1.7e9 + time:.3f}" if rng.random() > 0.1 else "",
        ])
    return [[str(cell) for cell in row] for row in rows]


def write(path, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])


def downpour(*arguments):
    ended = subprocess.run([program("downpour"), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Trains on one file, and evaluates on another. Returns the folder, the rows of the other, and its loss."""
    folder = tmp_path_factory.mktemp("skew")
    rows = rows_of(2)
    write(folder / "train.csv", rows_of(1))
    write(folder / "test.csv", rows)
    (folder / "job.toml").write_text(
        f'[data]\nsource = "train.csv"\nformat = "csv"\nmissing = ["?", "-999"]\n[data.fields]{FIELDS}[model]{LAYERS}'
        '[optimizer]\ntype = "adagrad"\nlearning_rate = 0.05\n[train]\nepochs = 2\nbatch_size = 50\n[eval]\nsource = "test.csv"\n'
    )
    summary = json.loads(downpour("train", folder / "job.toml", "--quiet", "--log-format", "json"))
    return folder, rows, summary["evaluations"][-1]["outputs"]["p"]["logloss"]


def predicted(folder, *flags):
    downpour("predict", folder / "runs/job", "--data", folder / "test.csv", "--quiet", "--out", folder / "p.npy", *flags)
    return np.load(folder / "p.npy")[:, 0]


def test_evaluation_and_predict(trained):
    folder, rows, loss = trained
    p = predicted(folder).astype(np.float64)
    assert p.std() > 0.03
    y = np.array([float(row[0]) for row in rows])
    assert -(y * np.log(p) + (1 - y) * np.log1p(-p)).mean() == pytest.approx(loss, abs=TOLERANCE)
    raw = predicted(folder, "--raw").astype(np.float64)
    np.testing.assert_allclose(1 / (1 + np.exp(-raw)), p, atol=TOLERANCE)


def columns_of(rows):
    """Returns the columns as a table in memory has them: numbers are floats, and a missing one is NaN."""
    def number(text):
        return float(text) if text else np.nan

    texts = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS) if name != "label"}
    numbers = {"age": np.float32, "price": np.float32, "time": np.float64}
    return {name: np.array(list(map(number, column)), numbers[name]) if name in numbers else
            np.array(list(map(int, column))) if name == "section" else
            np.array([cell.split() for cell in column], np.float32) if name == "clicks" else np.array(column, object)
            for name, column in texts.items()}


def test_c_interface(trained):
    folder, rows, _ = trained
    model = dp.Model.load(folder / "runs/job")
    columns = columns_of(rows)
    np.testing.assert_allclose(model.predict_raw(columns)[:, 0], predicted(folder), atol=TOLERANCE)
    np.testing.assert_allclose(model.predict_raw(columns, activation=False)[:, 0], predicted(folder, "--raw"), atol=TOLERANCE)


def test_serve(trained):
    folder, rows, _ = trained
    serve = subprocess.Popen([program("downpour"), "serve", folder / "runs/job", "--port", "0"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    try:
        address = re.search(r"http://\S+", serve.stdout.readline()).group()
        served = []
        for begin in range(0, ROWS, 100):
            part = [dict(zip(COLUMNS[1:], row[1:])) for row in rows[begin:begin + 100]]
            for row in part:
                row["section"] = int(row["section"])
                row |= {name: float(row[name]) if row[name] else None for name in ("age", "price", "time")}
            body = json.dumps({"rows": part}).encode()
            request = urllib.request.Request(address + "/v1/predict", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as answer:
                served += json.load(answer)["predictions"]
    finally:
        serve.terminate()
        serve.wait(20)
    np.testing.assert_allclose(served, predicted(folder), atol=TOLERANCE)
