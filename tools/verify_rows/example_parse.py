"""example_parse.py write FILE ROWS | read FILE: TensorFlow's side of the row example-parse.

`write` writes tf.train.Examples with 26 int64, 13 floats and a label. `read` reads them on one core with TFRecordDataset, batches of 512 and
parse_example. After one pass to warm up, it prints the best of three passes as JSON.
"""
import json
import os
import sys
import time

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"})
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

BATCH = 512


def write(path, rows):
    rng = np.random.default_rng(7)
    ids = rng.integers(0, 1 << 20, (rows, 26))
    numbers = rng.standard_normal((rows, 13)).astype(np.float32)
    labels = rng.integers(0, 2, rows)
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(rows):
            features = {f"C{j + 1}": tf.train.Feature(int64_list=tf.train.Int64List(value=[ids[i, j]])) for j in range(26)}
            features |= {f"I{j + 1}": tf.train.Feature(float_list=tf.train.FloatList(value=[numbers[i, j]])) for j in range(13)}
            features["label"] = tf.train.Feature(float_list=tf.train.FloatList(value=[labels[i]]))
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def read(path):
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    spec = {f"C{j + 1}": tf.io.FixedLenFeature([], tf.int64) for j in range(26)}
    spec |= {f"I{j + 1}": tf.io.FixedLenFeature([], tf.float32) for j in range(13)}
    spec["label"] = tf.io.FixedLenFeature([], tf.float32)
    dataset = tf.data.TFRecordDataset(path).batch(BATCH).map(lambda records: tf.io.parse_example(records, spec))
    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    dataset = dataset.with_options(options)
    best = None
    for turn in range(4):
        start, cpu, rows = time.perf_counter(), time.process_time(), 0
        for batch in dataset:
            rows += batch["label"].shape[0]
        took = {"records": rows, "wall_seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        if turn > 0 and (best is None or took["wall_seconds"] < best["wall_seconds"]):
            best = took
    print(json.dumps(best))


if sys.argv[1] == "write":
    write(sys.argv[2], int(sys.argv[3]))
else:
    read(sys.argv[2])
