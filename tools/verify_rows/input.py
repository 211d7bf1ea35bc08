"""Rows about input: files written by TensorFlow and NumPy, and the cost of reading them."""
import hashlib
import os
import shutil
import sys
import time

from .frame import NotRun, at_least, at_most, below, figure, is_true, row
from .lab import CHECKOUT, descendants
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


ARRAYS_GB, ARRAYS_FULL_GB = 1, 8
ARRAYS = {"user": 128, "item": 128, "context": 16, "rating": 1, "genre": 10}  # floats per row
ARRAYS_JOB = """
data.source = "."
data.format = "npy"
data.fields = { user = { shape = [128] }, item = { shape = [128] }, context = { shape = [16] }, rating = {}, genre = { shape = [10] } }
model.layers = [{ name = "trunk", type = "dense", inputs = ["user", "item", "context"], units = [16], last = "relu" },
  { name = "stars", type = "dense", inputs = ["trunk"], units = [1] }, { name = "kinds", type = "dense", inputs = ["trunk"], units = [10] }]
model.outputs = [{ name = "a", input = "stars", loss = "squared", target = "rating" }, { name = "b", input = "kinds", loss = "logistic", target = "genre", metrics = ["logloss"] }]
optimizer = { type = "sgd", learning_rate = 0.001 }
train = { epochs = 1, batch_size = 256 }
"""
# Writes ARRAYS with NumPy, a block of rows at a time.
WRITE_ARRAYS = """
import sys
import numpy as np
rows, rng = int(sys.argv[1]), np.random.default_rng(1)
for name, width in zip(sys.argv[2::2], map(int, sys.argv[3::2])):
    out = np.lib.format.open_memmap(name + ".npy", "w+", np.float32, (rows,) if width == 1 else (rows, width))
    for begin in range(0, rows, 65536):
        part = out[begin:begin + 65536]
        part[...] = rng.random(part.shape, np.float32) if name != "genre" else rng.integers(0, 2, part.shape)
"""


def _memory_of_its_own_mb(pid):
    """Returns the resident memory without pages of files, in MB."""
    try:
        with open(f"/proc/{pid}/status") as lines:
            return sum(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    except (OSError, ProcessLookupError):
        return 0


@row("npy-train", "a model with 3 inputs and 2 outputs trained on arrays that NumPy wrote, larger than the memory it may take")
def npy_train(lab):
    gigabytes = ARRAYS_FULL_GB if lab.full else ARRAYS_GB
    rows = gigabytes * 10 ** 9 // (4 * sum(ARRAYS.values()))
    folder = lab.row_folder("npy-train")
    written = [str(part) for array in ARRAYS.items() for part in array]
    lab.run("npy-train", [venv_python(lab, TENSORFLOW), "-c", WRITE_ARRAYS, rows, *written], 900, cwd=folder).expect()
    (folder / "job.toml").write_text(ARRAYS_JOB)
    largest = 0
    with lab.start("npy-train", lab.train_command(folder / "job.toml", folder / "run"), 1800) as running:
        while running.is_running():
            largest = max(largest, sum(map(_memory_of_its_own_mb, [running.pid, *descendants(running.pid)])))
            time.sleep(0.02)
        summary = running.wait().expect().summary()
    applied = summary["accounts"][0]["applied"]
    yield is_true(f"one epoch of {gigabytes} GB in five arrays", applied == rows, f"{rows:,} rows", f"{applied:,} rows",
                  f"{figure(rows / summary['train_seconds'])} rows/s")
    yield below("resident memory beyond page cache, of all processes", largest, 500, " MB")
    for path in folder.glob("*.npy"):
        path.unlink()


EXAMPLE_JOB = """
data.source = "DATA"
data.format = "tfrecord"
data.fields.label = {}
data.fields."I1..I13" = {}
data.fields."C1..C26" = { type = "int64", transform = ["identity"] }
model.layers  = [{ name = "wide", type = "linear", inputs = ["C1..C26"] }, { name = "deep", type = "dense", inputs = ["I1..I13"], units = [1] },
                 { name = "logit", type = "add", inputs = ["wide", "deep"] }]
model.outputs = [{ name = "click", input = "logit", loss = "logistic", target = "label" }]
train.batch_size = 512
"""


def _read(lab, row_name, job):
    """Returns the best of ROUNDS rounds of bench-read on one core."""
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
    """Requires 500 MB/s, or else twice the rate of the fastest of scikit-learn, pandas and pyarrow on the same file."""
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
    """Compares one thread with one memcpy, and all cores, as in a job, with memcpy on as many threads."""
    found = [result for name, result in lab.bench("input").items() if name.startswith("npy") and result["unit"] == "MB/s"]
    for what, reading in zip(("one thread", "all cores, both sides"), found):
        yield at_least(f"{what}: share of memcpy of the same bytes", reading["value"] / reading["limit_value"] * 100, 50, " %",
                       f"{figure(reading['value'])} to {figure(reading['limit_value'])} MB/s")


SHARD_GB, SHARD_MEMORY_MB, SHARDS = 1, 256, 8
ROW_BYTES = 320
# Runs a command and prints its time and its peak resident memory, which only its parent can query.
MEASURED = ("import json, resource, subprocess, sys, time\n"
            "begin = time.monotonic()\n"
            "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "print(json.dumps({'seconds': time.monotonic() - begin, 'resident_mb': used.ru_maxrss * 1024 / 1e6}))\n"
            "sys.exit(code)\n")


def _measured(lab, row_name, command):
    return lab.run(row_name, [sys.executable, "-c", MEASURED, *map(str, command)], 900).expect().summary()


def _multiset(paths):
    """Returns the number of lines of each file, and the sum of the hashes of all lines, which does not depend on the order."""
    counts, total = [], 0
    for path in paths:
        count = 0
        with open(path, "rb") as lines:
            for line in lines:
                total += int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "little")
                count += 1
        counts.append(count)
    return counts, total % 2 ** 64


@row("shard", "downpour shard: synthetic records cut, then shuffled, in 256 MB of memory")
def shard(lab):
    """Requires 300 MB/s, or else 80 % of the rate of copying and parsing the same file in the same run."""
    gigabytes = 10 if lab.full else SHARD_GB
    path, _ = lab.synth("shard", "data.tsv", gigabytes * 10 ** 9 // ROW_BYTES, 0)
    folder = lab.row_folder("shard")
    size = path.stat().st_size
    (rows,), wanted = _multiset([path])
    job = folder / "job.toml"
    job.write_text(JOBS["tsv"].replace("DATA", str(path)) + "train.batch_size = 512\n")
    copy = folder / "copy"
    copied = _measured(lab, "shard", ["cp", path, copy])["seconds"]
    copy.unlink()
    parsed = _read(lab, "shard", job)["wall_seconds"]
    for what, flags in (("cut", []), ("shuffled", ["--shuffle"])):
        out = folder / what
        shutil.rmtree(out, ignore_errors=True)
        warm(path)
        ours = _measured(lab, "shard", [lab.program(), "shard", path, "-o", out, "-n", SHARDS, "--memory", f"{SHARD_MEMORY_MB}MB", "--quiet", *flags])
        counts, found = _multiset(sorted(out.iterdir()))
        yield is_true(f"{what}: every record once", found == wanted and sum(counts) == rows, "same multiset", f"{sum(counts)} of {rows} records")
        yield at_most(f"{what}: records of the largest shard less those of the smallest", max(counts) - min(counts), 1)
        yield at_most(f"{what}: resident memory", ours["resident_mb"], SHARD_MEMORY_MB, " MB")
        speed = size / ours["seconds"] / 1e6
        note = f"{figure(speed)} MB/s; cp {figure(size / copied / 1e6)}, parsing {figure(size / parsed / 1e6)}"
        if speed >= 300:
            yield at_least(f"{what}: speed", speed, 300, " MB/s", note)
        else:
            yield at_least(f"{what}: speed, of cp and parsing", (copied + parsed) / ours["seconds"] * 100, 80, " %", note)
        shutil.rmtree(out)
    path.unlink()
