"""Rows about a ps whose tables outgrow the available memory: growth, limits of address space, a memory budget."""
import shutil

from .frame import NotRun, Broken, at_least, is_true, row
from .lab import CHECKOUT

GIB = 1 << 30
# A row has 4.2 KB: dim 512 with Adagrad's slot, the linear part, key and index. The first 172,800 records have 0.69
# million distinct ids, so their rows of 21 KB each (LARGE_DIM) take 14 GiB.
DIM = 512
LARGE_DIM = 2560
JOB = """
data      = {{ source = "{data}", format = "criteo", shuffle = "off", shard_records = 2048 }}
model     = {{ preset = "wide_deep", dim = {dim}, units = [4] }}
optimizer = {{ type = "adagrad", learning_rate = 0.02 }}
train     = {{ epochs = 1, steps = {steps}, batch_size = 64, checkpoint = {{ every = "1h" }} }}
cluster   = {{ {cluster} }}
"""


def available_bytes():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


def _train(lab, data, steps, cluster, prefix=(), dim=DIM, timeout_s=280):
    folder = lab.row_folder("hardening-memory")
    job = folder / "job.toml"
    job.write_text(JOB.format(data=data, dim=dim, steps=steps, cluster=cluster))
    shutil.rmtree(folder / "run", ignore_errors=True)
    try:
        return lab.run("hardening-memory", [*prefix, *lab.train_command(job, folder / "run")], timeout_s)
    finally:
        shutil.rmtree(folder / "run", ignore_errors=True)


def _ps_bytes(ended):
    return max(one["table_bytes"] for one in ended.summary()["processes"] if one["role"] == "ps")


def _last_error(ended):
    return next((line for line in reversed(ended.err.splitlines()) if "DP-" in line), ended.err[-200:])


@row("hardening-memory", "one ps grows past 4 GiB, within limits of address space, and beyond a budget")
def hardening_memory(lab):
    data, _ = lab.synth("hardening-memory", "many.tsv", 300_000, 0, "--ids", 5_000_000)
    try:
        yield from _growth(lab, data)
        yield from _address_space(lab, data)
        yield from _budget(lab, data)
    finally:
        data.unlink(missing_ok=True)


def _growth(lab, data):
    if available_bytes() < 18 * GIB:
        raise NotRun(f"a table of 12 GiB needs 18 GiB of free memory; {available_bytes() / GIB:.0f} GiB are free")
    ended = _train(lab, data, 2700, 'ps_memory = "16GiB"', dim=LARGE_DIM, timeout_s=580).expect()
    yield at_least("tables of one ps", _ps_bytes(ended) / GIB, 12, " GiB", f"one process, Wide & Deep, dim {LARGE_DIM}")


def _address_space(lab, data):
    for gib in (4, 2, 1):
        ended = _train(lab, data, 60, "", ("prlimit", f"--as={gib * GIB}"))
        yield is_true(f"a job of 440 MiB under --as={gib}G", ended.code == 0, "ends with 0", f"ends with {ended.code}",
                      f"tables of {_ps_bytes(ended) / GIB:.2f} GiB" if ended.code == 0 else _last_error(ended))
    ended = _train(lab, data, 2700, "", ("prlimit", f"--as={4 * GIB}"), dim=LARGE_DIM)
    yield is_true("12 GiB of tables under --as=4G", ended.code == 78 and "DP-2401" in ended.err, "78, DP-2401", f"ends with {ended.code}",
                  _last_error(ended))


def _budget(lab, data):
    ended = _train(lab, data, 2700, 'ps_memory = "1GiB"')
    said = _last_error(ended)
    yield is_true("12 GiB of tables with a budget of 1 GiB", ended.code == 78 and "the largest table is" in said, "78, the table named",
                  f"ends with {ended.code}", said)
    ended = _train(lab, data, 2700, 'ps_memory = "1GiB", ps = 1, workers = 2')
    said = _last_error(ended)
    yield is_true("the same with a ps process of its own", ended.code == 78 and "the largest table is" in said, "78, the table named",
                  f"ends with {ended.code}", said)
