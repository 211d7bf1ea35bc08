"""Rows of the input: files of TensorFlow's and NumPy's, and what reading them costs."""
import os
import shutil

from .frame import NotRun, at_least, figure, is_true, row
from .lab import CHECKOUT
from .peers import venv_python, warm

TENSORFLOW = {"tensorflow": "tensorflow-cpu", "numpy": "numpy"}
TABLES = {"pandas": "pandas", "pyarrow": "pyarrow", "sklearn": "scikit-learn"}
EXAMPLES = 100_000
TEXT_ROWS = 300_000
ROUNDS = 3


def _one_core():
    if not shutil.which("taskset"):
        raise NotRun("taskset is not there (Debian: util-linux)")
    return ["taskset", "-c", str(max(os.sched_getaffinity(0)))]


def _interop(lab):
    def compare():
        python = venv_python(lab, TENSORFLOW)
        folder = lab.row_folder("interop") / "files"
        folder.mkdir(parents=True, exist_ok=True)
        ended = lab.run("interop", [python, CHECKOUT / "tests/interop/formats.py", lab.program("interop-records"), folder], 1200)
        return ended.summary()
    return lab.once("interop", compare)


def _equal(found, names):
    for name in names:
        failed = [said for said in found["failed"] if said.startswith(name)]
        yield is_true(name, not failed and found.get(name, 0) > 0, "all values equal", f"{found.get(name, 0)} compared, {len(failed)} differ",
                      "; ".join(failed)[:200])


@row("tfrecord-interop", "TFRecords of TensorFlow read here, ours read by TensorFlow")
def tfrecord_interop(lab):
    yield from _equal(_interop(lab), ["tfrecord read here", "tfrecord of ours read by TensorFlow"])


@row("npy", ".npy and .npz of every type, version and shape, against NumPy")
def npy(lab):
    yield from _equal(_interop(lab), ["npy", "npz"])


EXAMPLE_JOB = """
data = { source = "DATA", format = "tfrecord" }
data.fields.label = {}
data.fields."I1..I13" = {}
data.fields."C1..C26" = { type = "int64", transform = ["identity"] }
model.layers  = [{ name = "wide", type = "linear", inputs = ["C1..C26"] }, { name = "deep", type = "dense", inputs = ["I1..I13"], units = [1] },
                 { name = "logit", type = "add", inputs = ["wide", "deep"] }]
model.outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label" }]
train.batch_size = 512
"""


def _read(lab, row_name, job):
    """The best of three rounds of bench-read, on one core."""
    return lab.run(row_name, [*_one_core(), lab.program("bench-read"), job, ROUNDS]).expect().summary()


@row("example-parse", "tf.train.Example: read, checked, parsed, batched by 512 on one core, against tf.data")
def example_parse(lab):
    python = venv_python(lab, TENSORFLOW)
    script = CHECKOUT / "tools/verify_rows/example_parse.py"
    folder = lab.row_folder("example-parse")
    path = folder / "examples.tfrecord"
    lab.run("example-parse", [python, script, "write", path, EXAMPLES], 900).expect()
    job = folder / "job.toml"
    job.write_text(EXAMPLE_JOB.replace("DATA", str(path)))
    warm(path)
    ours = _read(lab, "example-parse", job)
    theirs = lab.run("example-parse", [*_one_core(), python, script, "read", path], 600).expect().summary()
    us = {name: found["wall_seconds"] / found["records"] * 1e6 for name, found in (("ours", ours), ("theirs", theirs))}
    yield at_least("rows/s, against tf.data with parse_example", us["theirs"] / us["ours"], 8, " x",
                   f"{us['ours']:.2f} us a row of {path.stat().st_size / EXAMPLES:.0f} bytes, theirs {us['theirs']:.2f}")
    path.unlink()


JOBS = {
    "libsvm": 'data = { source = "DATA", format = "libsvm" }\nmodel.preset = "logistic_regression"\n',
    "csv": 'data.source = "DATA"\ndata.format = "csv"\ndata.header = true\ndata.fields.label = {}\ndata.fields."I1..I13" = { default = 0 }\n'
           'data.fields."C1..C26" = { type = "string", default = "", transform = [{ op = "hash", buckets = 1048576 }] }\n'
           'data.columns = ["label", "I1..I13", "C1..C26"]\nmodel.preset = "wide_deep"\n',
    "tsv": 'data = { source = "DATA", format = "criteo" }\nmodel.preset = "wide_deep"\n'}


@row("text-parse", "libsvm, CSV and Criteo TSV: read, parsed, batched on one core")
def text_parse(lab):
    """500 MB/s; where that is not reached, twice the fastest of scikit-learn, pandas and pyarrow on the same file."""
    for kind, text in JOBS.items():
        path, _ = lab.synth("text-parse", f"data.{kind}", TEXT_ROWS, 0, "--format", kind)
        job = lab.row_folder("text-parse") / f"{kind}.toml"
        job.write_text(text.replace("DATA", str(path)) + "train.batch_size = 512\n")
        warm(path)
        ours = _read(lab, "text-parse", job)
        speed = ours["bytes"] / ours["wall_seconds"] / 1e6
        if speed >= 500:
            yield at_least(f"{kind}, one core", speed, 500, " MB/s")
            continue
        python = venv_python(lab, TABLES)
        theirs = lab.run("text-parse", [*_one_core(), python, CHECKOUT / "tools/verify_rows/text_parse.py", kind, path], 600).expect().summary()
        name = min(theirs, key=theirs.get)
        yield at_least(f"{kind}, one core, against {name}", theirs[name] / ours["wall_seconds"], 2, " x",
                       f"{figure(speed)} MB/s; theirs " + ", ".join(f"{n} {figure(ours['bytes'] / s / 1e6)}" for n, s in theirs.items()))
        path.unlink()


@row("npy-shuffle", "npy batches shuffled within their shards, against memcpy")
def npy_shuffle(lab):
    found = next(result for name, result in lab.bench("input").items() if name.startswith("npy") and result["unit"] == "MB/s")
    yield at_least("share of memcpy of the same bytes", found["value"] / found["limit_value"] * 100, 50, " %",
                   f"{figure(found['value'])} to {figure(found['limit_value'])} MB/s")
