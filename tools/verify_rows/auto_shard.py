"""Counts by id the rows that two TensorFlow workers read under each auto-shard policy.

  auto_shard.py FILES_FOLDER ROWS    FILES_FOLDER/N/*.svm is the data set in N files; a line is `label ID:1`. Prints JSON.

Every strategy calls `input_ops.auto_shard_dataset` on a worker's data set (`experimental_distribute_dataset`). It needs no cluster.
"""
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf  # noqa: E402
from tensorflow.python.distribute import input_ops  # noqa: E402

WORKERS = 2
BATCH = 16
FIRST_ID = 1_000_000
POLICIES = tf.data.experimental.AutoShardPolicy


def counted(rows, policy, make):
    """Reads the data set make(worker) for each worker. Returns the number of rows per worker and {times read: rows}, or
    the text of the error."""
    workers, times = [], Counter()
    for worker in range(WORKERS):
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = policy
        data = make(worker).batch(BATCH).with_options(options)
        try:
            data = input_ops.auto_shard_dataset(data, WORKERS, worker, WORKERS)
            ids = [int(line.split()[1].split(b":")[0]) - FIRST_ID for batch in data for line in batch.numpy()]
        except tf.errors.OpError as error:
            return {"error": short(error.message)}
        workers.append(len(ids))
        times.update(ids)
    return {"workers": workers, "times": Counter(times[row] for row in range(rows))}


def short(text):
    return re.split(r"[,:]", text.split("}}")[-1].strip(), maxsplit=1)[0]


def main(folder, rows):
    def files(count):
        return sorted(str(path) for path in (folder / str(count)).glob("*.svm"))

    def generated():
        for row in range(rows):
            yield f"1 {FIRST_ID + row}:1".encode()

    found = {"tensorflow": tf.__version__, "policies": {}}
    for name in ("AUTO", "FILE", "DATA", "OFF"):
        policy = getattr(POLICIES, name)
        of = {count: counted(rows, policy, lambda _, c=count: tf.data.TextLineDataset(files(c))) for count in (1, 2, 3, 7)}
        line = tf.TensorSpec([], tf.string)
        of["generator"] = counted(rows, policy, lambda _: tf.data.Dataset.from_generator(generated, output_signature=line))
        found["policies"][name.lower()] = of
    # Two pipelines that look right but are wrong: each worker draws its own order, and then takes its half of it.
    found["list_files"] = counted(rows, POLICIES.DATA,
                                  lambda _: tf.data.Dataset.list_files(str(folder / "3/*.svm")).interleave(tf.data.TextLineDataset))
    found["shuffle_shard"] = counted(rows, POLICIES.OFF,
                                     lambda worker: tf.data.TextLineDataset(files(3)).shuffle(rows).shard(WORKERS, worker))
    print(json.dumps(found))


main(Path(sys.argv[1]), int(sys.argv[2]))
