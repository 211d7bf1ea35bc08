"""Compares values of files that Downpour, NumPy and TensorFlow write and read.

Downpour reads files of NumPy and TensorFlow, and TensorFlow reads TFRecords of Downpour.

formats.py PROGRAM FOLDER, where PROGRAM is interop-records. Prints a line for each failed check,
then JSON. Exits with 1 if a check has failed.
"""
import csv
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"})
import numpy as np  # noqa: E402

PROGRAM, FOLDER = sys.argv[1], Path(sys.argv[2])
checks = {"failed": []}


def check(what, good, detail=""):
    checks[what.split(":")[0]] = checks.get(what.split(":")[0], 0) + 1
    if not good:
        checks["failed"].append(f"{what} {detail}")
        print(f"FAILED {what}: {detail}", flush=True)


def read(data, sparse=(), dense=()):
    """Returns the records that a job with this `data` reads, or its error message as a text.

    `sparse` names the fields that give keys, and `dense` the fields that give numbers.
    """
    layers, ends = [], []
    for field in sparse:  # one layer each, so that keys are not made different from those of other fields
        layers.append({"name": f"_wide_{field}", "type": "linear", "inputs": [field]})
        ends.append(f"_wide_{field}")
    if dense:
        layers.append({"name": "_deep", "type": "dense", "inputs": list(dense), "units": [1]})
        ends.append("_deep")
    layers.append({"name": "_sum", "type": "add", "inputs": ends} if len(ends) > 1 else {"name": "_sum", "type": "relu", "inputs": ends})
    target = next(iter(data["target"]))
    text = toml({k: v for k, v in data.items() if k != "target"} | {"shuffle": "off"}, "data.")
    text += "model.layers = " + value(layers) + "\n"
    text += "model.outputs = " + value([{"name": "_out", "input": "_sum", "loss": "squared", "target": target}]) + "\n"
    job = FOLDER / "job.toml"
    job.write_text(text)
    ended = subprocess.run([PROGRAM, "read", job], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        return ended.stderr.strip()
    return [json.loads(line) for line in ended.stdout.splitlines()]


def value(v):
    if isinstance(v, bool):
        return str(v).lower()
    if isinstance(v, dict):
        return "{ " + ", ".join(f'"{k}" = {value(x)}' for k, x in v.items()) + " }"
    if isinstance(v, (list, tuple)):
        return "[" + ", ".join(map(value, v)) + "]"
    return json.dumps(v) if isinstance(v, str) else str(v)


def toml(table, prefix):
    return "".join(f"{prefix}{k} = {value(v)}\n" for k, v in table.items())


def numbers_equal(records, field, array):
    wanted = np.asarray(array).astype(np.float32).reshape(len(array), -1)
    got = np.array([record[field] for record in records], np.float64).astype(np.float32)
    return got.shape == wanted.shape and np.array_equal(got, wanted)


# ---- NumPy

def some(dtype, shape, rng):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        high = min(int(info.max), 2**62)
        return rng.integers(max(int(info.min), -(2**62)), high, shape, dtype=np.int64).astype(dtype)
    scale = 1000 if dtype.itemsize == 2 else 1e6
    return (rng.standard_normal(shape) * scale).astype(dtype)


def numpy_checks():
    rng = np.random.default_rng(1)
    y = FOLDER / "y.npy"
    kinds = ["?", "b", "B"] + [order + kind for order, kind in itertools.product("<>", ["i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8"])]
    shapes = [(7,), (1,), (5, 1), (4, 3), (3, 2, 4), (2, 1, 3, 2)]
    for kind, shape, version in itertools.product(kinds, shapes, [(1, 0), (2, 0), (3, 0)]):
        array = some(kind, shape, rng)
        with open(FOLDER / "x.npy", "wb") as file:
            np.lib.format.write_array(file, array, version)
        np.save(y, np.arange(len(array), dtype=np.float32))
        data = {"source": str(FOLDER), "format": "npy", "target": ["y"], "fields": {"x": {"shape": list(shape[1:])}, "y": {}}}
        records = read(data, dense=["x"])
        check("npy: equal to NumPy", isinstance(records, list) and numbers_equal(records, "x", array), f"{kind} {shape} {version} {records if isinstance(records, str) else ''}")
    for save, name in ((np.savez, "stored"), (np.savez_compressed, "compressed")):
        arrays = {"a": some("<f8", (300, 3), rng), "b": some(">i4", (300,), rng), "k": rng.integers(0, 1000, 300), "y": some("f4", (300,), rng)}
        save(FOLDER / "all.npz", **arrays)
        data = {"source": str(FOLDER / "all.npz"), "format": "npz", "target": ["y"], "shard_records": 40,
                "fields": {"a": {"shape": [3]}, "b": {}, "y": {}, "k": {"type": "int64", "transform": ["identity"]}}}
        records = read(data, sparse=["k"], dense=["a", "b"])
        good = isinstance(records, list) and all(numbers_equal(records, f, arrays[f]) for f in "aby")
        check(f"npz: {name}", good and [record["k"] for record in records] == [[int(k)] for k in arrays["k"]], str(records)[:200])
    # A program that writes batches of different sizes to its stdout.
    arrays = {"a": some("<f8", (1000, 3), rng), "b": some(">i4", (1000,), rng), "y": some("f4", (1000,), rng)}
    np.savez(FOLDER / "generated.npz", **arrays)
    (FOLDER / "generate.py").write_text(
        "import sys\nimport numpy as np\narrays = np.load('generated.npz')\nbegin = 0\nfor rows in (64, 1, 0, 500, 435):\n"
        "    for name in ('a', 'b', 'y'):\n        np.save(sys.stdout.buffer, arrays[name][begin:begin + rows])\n    begin += rows\n")
    data = {"source": {"exec": [sys.executable, "generate.py"], "format": "npy", "records": 1000}, "target": ["y"],
            "fields": {"a": {"shape": [3]}, "b": {}, "y": {}}}
    records = read(data, dense=["a", "b"])
    check("npy: what a program writes with np.save", isinstance(records, list) and all(numbers_equal(records, f, arrays[f]) for f in arrays), str(records)[:300])
    np.save(FOLDER / "x.npy", np.asfortranarray(rng.standard_normal((5, 2))))
    np.save(y, np.zeros(5))
    said = read({"source": str(FOLDER), "format": "npy", "target": ["y"], "fields": {"x": {"shape": [2]}, "y": {}}}, dense=["x"])
    check("npy: Fortran order is refused", isinstance(said, str) and "Fortran" in said, str(said)[:200])


# ---- TensorFlow

def tensorflow_checks():
    import tensorflow as tf
    rng = np.random.default_rng(2)
    count = 500
    ids = rng.integers(0, 2**62, count)
    signed = rng.integers(-(2**62), 2**62, (count, 3))
    x = rng.standard_normal((count, 4)).astype(np.float32)
    words = [[f"w{rng.integers(0, 50)}" for _ in range(rng.integers(0, 5))] for _ in range(count)]
    matrix = rng.standard_normal((count, 2, 3)).astype(np.float32)
    longs = rng.integers(0, 2**40, (count, 2))

    lists = {"bytes_list": tf.train.BytesList, "float_list": tf.train.FloatList, "int64_list": tf.train.Int64List}

    def feature(kind, values):
        return tf.train.Feature(**{kind: lists[kind](value=values)})

    def example(i):
        return tf.train.Example(features=tf.train.Features(feature={
            "id": feature("int64_list", [ids[i]]), "signed": feature("int64_list", signed[i]), "x": feature("float_list", x[i]), "y": feature("float_list", x[i, :1]),
            "item/words": feature("bytes_list", [w.encode() for w in words[i]]),
            "matrix": feature("bytes_list", [tf.io.serialize_tensor(matrix[i]).numpy()]),
            "longs": feature("bytes_list", [tf.io.serialize_tensor(longs[i]).numpy()])})).SerializeToString()

    fields = {"id": {"type": "int64", "transform": ["identity"]}, "signed": {"type": "int64", "shape": [3]}, "x": {"shape": [4]}, "y": {},
              "words": {"type": "string", "shape": [-1], "feature": "item/words"}, "matrix": {"shape": [2, 3], "encoding": "tensor"},
              "longs": {"type": "int64", "shape": [2], "encoding": "tensor"}}
    for compression in ("", "GZIP", "ZLIB"):
        path = str(FOLDER / f"tf{compression}.tfrecord")
        with tf.io.TFRecordWriter(path, compression or None) as writer:
            for i in range(count):
                writer.write(example(i))
        records = read({"source": path, "format": "tfrecord", "target": ["y"], "shard_records": 30, "fields": fields},
                       sparse=["id", "words"], dense=["signed", "x", "matrix", "longs"])
        what = f"tfrecord read here: {compression or 'plain'}"
        if isinstance(records, str) or len(records) != count:
            check(what, False, records if isinstance(records, str) else f"{len(records)} records")
            continue
        for name, array in (("signed", signed), ("x", x), ("y", x[:, :1]), ("matrix", matrix), ("longs", longs)):
            check(what, numbers_equal(records, name, array), name)
        check(what, [record["id"] for record in records] == [[int(i)] for i in ids], "id")
        keys = {}
        same = all(len(record["words"]) == len(words[i]) and all(keys.setdefault(w, k) == k for w, k in zip(words[i], record["words"]))
                   for i, record in enumerate(records))
        check(what, same and len(set(keys.values())) == len(keys), "words")
    # Records that are serialized tensors.
    path = str(FOLDER / "tensors.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(count):
            writer.write(tf.io.serialize_tensor(x[i]).numpy())
    records = read({"source": path, "format": "tfrecord", "record": "tensor", "target": ["y"],
                    "fields": {"y": {"column": "0"}, "rest": {"column": "1", "shape": [3]}}}, dense=["rest"])
    check("tfrecord read here: tensors", isinstance(records, list) and numbers_equal(records, "y", x[:, :1]) and numbers_equal(records, "rest", x[:, 1:]), str(records)[:200])
    # TensorFlow reads TFRecords of Downpour and checks every checksum.
    path = str(FOLDER / "ours.tfrecord")
    subprocess.run([PROGRAM, "write", path, str(count)], check=True)
    spec = {"ids": tf.io.FixedLenFeature([3], tf.int64), "x": tf.io.FixedLenFeature([], tf.float32),
            "words": tf.io.FixedLenFeature([2], tf.string), "tensor": tf.io.FixedLenFeature([], tf.string)}
    seen = 0
    good = True
    for i, record in enumerate(tf.data.TFRecordDataset(path)):
        parsed = tf.io.parse_single_example(record, spec)
        tensor = tf.io.parse_tensor(parsed["tensor"], tf.float32)
        good &= parsed["ids"].numpy().tolist() == [i, -i, i << 40] and float(parsed["x"]) == i * 0.25
        good &= parsed["words"].numpy().tolist() == [f"word{i}".encode(), b""]
        good &= tensor.shape == (2, 1) and tensor.numpy().ravel().tolist() == [i * 0.25, -i * 0.25]
        seen += 1
    check("tfrecord of ours read by TensorFlow", good and seen == count, f"{seen} records")
    # The same for TFRecords that `downpour shard` makes from JSON lines.
    lines = FOLDER / "rows.jsonl"
    lines.write_text("".join(json.dumps({"id": int(longs[i, 0]), "x": [float(v) for v in x[i]], "word": f"w{i % 7}", "price": i * 0.25 + 0.125}) + "\n" for i in range(count)))
    spec = {"id": tf.io.FixedLenFeature([], tf.int64), "x": tf.io.FixedLenFeature([4], tf.float32),
            "word": tf.io.FixedLenFeature([], tf.string), "price": tf.io.FixedLenFeature([], tf.float32)}
    for compression in ("", "GZIP"):
        out = FOLDER / f"shards{compression}"
        packed = ["--compress", compression.lower()] if compression else []
        subprocess.run([Path(PROGRAM).parent / "downpour", "shard", lines, "-o", out, "-n", "3", "--to", "tfrecord", "--quiet", *packed], check=True, stdout=subprocess.DEVNULL)
        rows = [tf.io.parse_single_example(record, spec) for record in tf.data.TFRecordDataset([str(path) for path in sorted(out.iterdir())], compression or None)]
        good = len(rows) == count and all(
            int(row["id"]) == longs[i, 0] and np.array_equal(row["x"].numpy(), x[i]) and row["word"].numpy() == f"w{i % 7}".encode()
            and float(row["price"]) == i * 0.25 + 0.125 for i, row in enumerate(rows))
        check("tfrecord of ours read by TensorFlow", good, f"shards {compression or 'plain'}: {len(rows)} records")
    # A table with line breaks in its cells, as the csv module of Python writes it.
    path = FOLDER / "quoted.csv"
    texts = ["plain", "two\nlines", 'a "quote"', "break at its end\n", "\n", "\r\n", 'comma, "and"\n\nbreaks', ""]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "price"])
        writer.writerows([i, texts[i % len(texts)] * (1 + i % 3), i * 0.25] for i in range(count))
    wanted = [(int(i), text.numpy().decode(), float(price)) for i, text, price
              in tf.data.experimental.CsvDataset(str(path), [tf.int64, tf.constant([""], tf.string), tf.float32], header=True)]
    job = FOLDER / "quoted.toml"
    job.write_text('data = { source = "quoted.csv", format = "csv", header = true, quoted_newlines = true, shard_records = 20 }\nmodel = { preset = "linear_regression", target = "price" }\n')
    for parts in (1, 3):
        out = FOLDER / f"quoted{parts}"
        subprocess.run([Path(PROGRAM).parent / "downpour", "shard", job, "-o", out, "-n", str(parts), "--to", "jsonl", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        rows = [json.loads(line) for part in sorted(out.iterdir()) for line in part.read_text().splitlines()]
        got = [(row["id"], row.get("text", ""), row["price"]) for row in rows]
        check("csv with line breaks in quotes, as TensorFlow reads it", got == wanted and len(got) == count, f"{parts} shards: {len(got)} of {len(wanted)} rows")


numpy_checks()
tensorflow_checks()
print(json.dumps(checks))
sys.exit(1 if checks["failed"] else 0)
