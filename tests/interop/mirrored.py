"""Compares synchronous training with TensorFlow's MirroredStrategy, and exported models with what NumPy computes from them.

mirrored.py BIN FOLDER, where BIN has Downpour's programs. Both systems begin with the same weights, which `downpour export`
writes, and train on the same two batches of 32 records in each of 100 steps: one for each replica, or logical CPU device.
An epoch of the job has one step, so its loss is that of the step. Prints each comparison. Exits with 1 if one has failed.
"""
import json
import os
import sys

os.environ.update({"CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0"})
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from harness import FOLDER, check, downpour, failed  # noqa: E402

REPLICAS, BATCH, INPUTS, UNITS, CLASSES, STEPS = 2, 32, 20, 16, 3, 100
RECORDS = REPLICAS * BATCH
OPTIMIZERS = {
    "sgd": ("{ type = \"sgd\", learning_rate = 0.2 }", lambda: tf.keras.optimizers.SGD(0.2)),
    "adam": ("{ type = \"adam\", learning_rate = 0.01 }", lambda: tf.keras.optimizers.Adam(0.01)),
}


def train(name, optimizer, epochs):
    """Returns the run folder and the loss of each epoch."""
    job = FOLDER / f"{name}.toml"
    job.write_text(f"""
data = {{ source = "data", format = "npy", shuffle = "off", shard_records = {BATCH}, fields = {{ x = {{ shape = [{INPUTS}] }}, y = {{ type = "int64" }} }} }}
model = {{ preset = "softmax_mlp", inputs = ["x"], target = "y", units = [{UNITS}, {CLASSES}] }}
optimizer = {optimizer}
train = {{ epochs = {epochs}, batch_size = {BATCH}, mode = "sync", replicas = {REPLICAS} }}
""")
    summary = json.loads(downpour("train", job, "--fresh", "--quiet", "--log-format", "json"))
    return FOLDER / "runs" / name, [account["loss"] for account in summary["accounts"]]


def arrays(run):
    downpour("export", run, "--out", FOLDER / "model.npz")
    with np.load(FOLDER / "model.npz") as loaded:
        assert b"preset = " in loaded["job.toml"], "the export has no job"
        return {name: loaded[name] for name in loaded.files if name != "job.toml"}


def layers(weights):
    """Returns weights [in, out] and bias [out] of each layer, in order."""
    found = sorted((array.shape, name) for name, array in weights.items() if not name.startswith("class/"))
    shapes = {(INPUTS, UNITS): 0, (UNITS,): 1, (UNITS, CLASSES): 2, (CLASSES,): 3}
    assert sorted(shapes) == sorted(shape for shape, _ in found), found
    return [weights[name] for _, name in sorted(found, key=lambda each: shapes[each[0]])]


def logits(variables, x, relu, matmul):
    return matmul(relu(matmul(x, variables[0]) + variables[1]), variables[2]) + variables[3]


def mirrored(initial, optimizer, x, y):
    """Returns the loss of each step of MirroredStrategy."""
    strategy = tf.distribute.MirroredStrategy(tf.config.list_logical_devices("CPU")[:REPLICAS])
    assert strategy.num_replicas_in_sync == REPLICAS
    with strategy.scope():
        variables = [tf.Variable(each) for each in initial]
        made = optimizer()
        made.build(variables)
    batches = strategy.experimental_distribute_values_from_function(
        lambda context: (x[context.replica_id_in_sync_group * BATCH:][:BATCH], y[context.replica_id_in_sync_group * BATCH:][:BATCH]))

    @tf.function
    def step(batch):
        def one(batch):
            with tf.GradientTape() as tape:
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch[1], logits(variables, batch[0], tf.nn.relu, tf.matmul))
                loss = tf.reduce_sum(losses) / RECORDS
            made.apply_gradients(zip(tape.gradient(loss, variables), variables))
            return loss
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(one, args=(batch,)), axis=None)

    return [float(step(batches)) for _ in range(STEPS)]


def main():
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * REPLICAS)
    rng = np.random.default_rng(1)
    x = rng.standard_normal((RECORDS, INPUTS)).astype(np.float32)
    y = rng.integers(0, CLASSES, RECORDS)
    (FOLDER / "data").mkdir()
    np.save(FOLDER / "data/x.npy", x)
    np.save(FOLDER / "data/y.npy", y)
    # A step this small changes no weight, so the export has the initial ones.
    initial = layers(arrays(train("initial", "{ type = \"sgd\", learning_rate = 1e-30 }", 1)[0]))
    for name, (text, make) in OPTIMIZERS.items():
        run, found = train(name, text, STEPS)
        wanted = np.array(mirrored(initial, make, x, y))
        difference = np.abs(np.array(found) - wanted)
        print(f"{name}: losses {found[0]:.4f} to {found[-1]:.4f}, MirroredStrategy {wanted[0]:.4f} to {wanted[-1]:.4f}")
        check(f"{name}: losses of 20 steps", difference[:20].max(), 1e-4)
        check(f"{name}: losses of 100 steps", difference.max(), 1e-4 if name == "sgd" else 1e-3)
        # The exported model gives the predictions of `downpour predict`.
        exp = np.exp(logits(layers(arrays(run)), x, lambda v: np.maximum(v, 0), np.matmul))
        predicted = np.loadtxt(downpour("predict", run, "--data", FOLDER / "data", "--quiet").splitlines())
        check(f"{name}: predictions of the exported model", np.abs(exp / exp.sum(1, keepdims=True) - predicted).max(), 1e-5)
    check_keys(rng)
    return 1 if failed else 0


def check_keys(rng):
    """Trains on libsvm lines with 40 features, and computes the predictions from the exported rows of the keys."""
    width, lines = 40, []
    for _ in range(500):
        features = np.sort(rng.choice(np.arange(1, width + 1), 5, replace=False))
        label = int(rng.random() < 1 / (1 + np.exp(features.mean() / 10 - 2)))
        lines.append((label, features))
    (FOLDER / "rows.svm").write_text("".join(f"{label} " + " ".join(f"{i}:1" for i in features) + "\n" for label, features in lines))
    job = FOLDER / "keys.toml"
    job.write_text("""
data = { source = "rows.svm", format = "libsvm" }
model = { preset = "logistic_regression", offset = "auto" }
optimizer = { type = "ftrl", learning_rate = 0.3 }
train = { epochs = 3, batch_size = 25 }
""")
    downpour("train", job, "--fresh", "--quiet")
    model = arrays(FOLDER / "runs/keys")
    rows = dict(zip(model["linear/weights/keys"].tolist(), model["linear/weights"][:, 0]))
    assert sorted(rows) == list(range(1, width + 1)), sorted(rows)
    logit = [model["probability/offset"][0] + model["linear/bias"][0] + sum(rows[int(i)] for i in features) for _, features in lines]
    predicted = np.loadtxt(downpour("predict", FOLDER / "runs/keys", "--data", FOLDER / "rows.svm", "--quiet").splitlines())
    check("keys: predictions of the exported model", np.abs(1 / (1 + np.exp(-np.array(logit))) - predicted).max(), 1e-5)


sys.exit(main())
