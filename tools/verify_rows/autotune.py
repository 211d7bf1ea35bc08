"""Compares the automatic number of shards read at once with every fixed number."""
from .frame import at_least, figure, row

FIXED = (1, 2, 4, 8)
ROUNDS = 2

# One worker with both cores: a wide model on text, a deep model on few records, and a program that waits before each shard.
PARSING = """
data      = { source = "DATA", format = "libsvm" }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl" }
train     = { batch_size = 4096 }
"""
COMPUTING = """
data      = { source = "DATA", format = "libsvm" }
model.layers  = [{ name = "e", type = "embedding", inputs = ["features"], dim = 16 },
                 { name = "tower", type = "dense", inputs = ["e"], units = [1024, 1024, 1], activation = "relu" }]
model.outputs = [{ name = "click", input = "tower", loss = "logistic", target = "label" }]
train     = { batch_size = 256 }
"""
WAITING = """
data      = { source = { exec = ["sh", "DATA"], replay = "shard", records = 600000 }, format = "libsvm", shard_records = 1000 }
model     = { preset = "logistic_regression" }
optimizer = { type = "ftrl" }
train     = { batch_size = 250 }
"""
PROGRAM = """sleep 0.2
awk -v begin="$DOWNPOUR_SHARD_BEGIN" -v end="$DOWNPOUR_SHARD_END" 'BEGIN { for (i = begin + 0; i < end + 0; ++i) print i % 2 " " i % 1000 + 1 ":1" }'
"""


@row("autotune", "shards read at once found while training, against 1, 2, 4 and 8 of them")
def autotune(lab):
    """Measures records per second of whole runs, in turns. The best run of each variant counts."""
    folder = lab.row_folder("autotune")
    waiting = folder / "waiting.sh"
    waiting.write_text(PROGRAM)
    large, _ = lab.synth("autotune", "large.svm", 4_000_000)
    small, _ = lab.synth("autotune", "small.svm", 120_000)
    for name, text, data in (("parsing takes longest", PARSING, large), ("computing takes longest", COMPUTING, small), ("the source is slow", WAITING, waiting)):
        job = folder / "job.toml"
        job.write_text(text.replace("DATA", str(data)) + "cluster = { ps = 1, workers = 1 }\n")
        rates = {}
        for _ in range(ROUNDS):
            for shards in (*FIXED, 0):
                flags = ["--set", f"data.parallelism={shards}"] if shards else []
                ended = lab.train("autotune", job, *flags).summary()
                rates[shards] = max(rates.get(shards, 0), ended["records"] / ended["train_seconds"])
        found = rates.pop(0)
        best = max(rates, key=rates.get)
        yield at_least(f"{name}: of the best fixed number", found / rates[best], 0.9,
                       note=f"{figure(found)} records/s; fixed: " + ", ".join(f"{shards}: {figure(rate)}" for shards, rate in rates.items()))
    for path in (large, small):
        path.unlink()
