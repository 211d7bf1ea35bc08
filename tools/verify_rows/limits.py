"""Rows against the limits of the machine: bare servers, bare sockets, plain arrays, dd."""
import os
import re
import time

from .frame import FAIL, Broken, at_least, at_most, figure, median, row
from .lab import named
from .peers import compiled

ROUNDS = 3


# ---- push and pull -----------------------------------------------------------------------------------------------------

def _sparse(lab, name, keys, ours, bare_arguments, share):
    """Measures both servers in turns. The median of the ratios for mixed pulls and pushes counts."""
    server = compiled(lab, "limits/psproto.cpp", "-lzmq")
    rounds = []
    for number in range(ROUNDS):
        bare = _psproto(lab, name, server, keys, bare_arguments)
        own = lab.bench("push_pull", number)
        rounds.append({phase: (named(own, f"{ours}, {our_name}")["value"], bare[phase])
                       for phase, our_name in (("pushpull", "pull + push"), ("push", "push"), ("pull", "pull"))})
    ratios = {phase: median(own / bare for own, bare in (r[phase] for r in rounds)) for phase in rounds[0]}
    own, bare = (median(r["pushpull"][side] for r in rounds) for side in (0, 1))
    yield at_least("push + pull, of the bare server", ratios["pushpull"], share, "",
                   f"{own:.1f} of {bare:.1f} M rows/s; push alone {ratios['push']:.2f}, pull alone {ratios['pull']:.2f}; medians of {ROUNDS}")


def _psproto(lab, name, server, keys, arguments):
    ended = lab.run(name, [server, "tcp", "sparse", keys, 16, *arguments, "pool"], 120).expect()
    found = {phase: float(rate) for phase, rate in re.findall(r"(push|pull|pushpull) +[\d.]+ GB/s.* ([\d.]+) Mkeys/s", ended.out)}
    if set(found) != {"push", "pull", "pushpull"}:
        raise Broken(f"psproto printed only {sorted(found)}")
    return found


@row("sparse-10k", "sparse push + pull, 10 k keys x 16, one ps over tcp")
def sparse_10k(lab):
    yield from _sparse(lab, "sparse-10k", 10_000, "tcp sparse, 10 k x 16, 8 in flight", (2000, 8), 0.85)


@row("sparse-1m", "sparse push + pull, 1 M keys x 16 in one call, one ps over tcp")
def sparse_1m(lab):
    yield from _sparse(lab, "sparse-1m", 1_000_000, "tcp sparse, 1 M x 16 in one call, 2 in flight", (20, 2), 0.55)


def _dense(lab, name, limit):
    results = [named(lab.bench("push_pull", number), name) for number in range(ROUNDS)]
    middle = sorted(results, key=lambda result: result["ratio"])[ROUNDS // 2]
    return at_least(f"dense push of 1 MiB, of {limit}", middle["ratio"], 0.7, "",
                    f"{middle['value']:.2f} of {middle['limit_value']:.2f} {middle['unit']}; median of {ROUNDS}")


@row("dense-tcp", "dense push 1 MB over tcp")
def dense_tcp(lab):
    yield _dense(lab, "tcp dense 1 MiB, 8 in flight, push", "raw TCP")


@row("dense-ipc", "dense push 1 MB over ipc")
def dense_ipc(lab):
    yield _dense(lab, "ipc dense 1 MiB, 8 in flight, push", "a raw Unix socket")


# ---- tables ------------------------------------------------------------------------------------------------------------

def _table(lab, number=0):
    """Runs the benchmark after a pause. A virtual machine returns freed memory to its hypervisor in pieces, seconds later, and
    each piece stops the machine for tens of milliseconds. During the pause, it returns the memory of earlier rows."""
    return lab.bench("table", number, settle_s=40)


@row("table", "table apply, 16 M rows x 16 floats, one thread")
def table(lab):
    for optimizer in ("sgd", "adagrad"):
        found = named(_table(lab), f"table apply {optimizer}")
        yield at_least(f"apply of {optimizer}, of a direct array", found["ratio"], 0.35, "", f"{found['value']:.1f} of {found['limit_value']:.1f} {found['unit']}")


@row("memory", "memory of tables; stalls while they grow")
def memory(lab):
    first = _table(lab)
    small = "1000 tables of 1,000 rows"
    rows_and_slots = 2 * 16 * 4
    for what, name in (("16 floats + Adagrad, 10 M rows", "memory, 16 floats and Adagrad"), (small, f"{small}, memory")):
        found = named(first, name)
        yield at_most(f"memory of rows and slots, {what}", found["value"] / rows_and_slots, 1.5, " x", f"{found['value']:.1f} B a row")
    yield at_most("index while growing to 10 M rows, mean", named(first, "index while growing, mean")["value"], 24, " B/key")
    for what, name in (("a table grows to 10 M rows", "paced growth, longest stall: beyond the median call"), (small, f"{small}, worst call, wall clock")):
        yield _stall(lab, what, name)


def _stall(lab, what, name):
    """Checks the shortest stall of up to three runs. A stall caused by Downpour occurs in every run, but one caused by other
    load does not."""
    worst = []
    for number in range(3):
        worst.append(named(_table(lab, number), name)["value"])
        check = at_most(f"longest stall, {what}", min(worst), 5, " ms", "wall clock; runs: " + ", ".join(figure(ms) for ms in worst))
        if check.state != FAIL:
            break
    return check


# ---- data --------------------------------------------------------------------------------------------------------------

@row("synth-dd", "downpour synth against dd of zeros to the same disk")
def synth_dd(lab):
    """Measures both commands in turns, including process start, until the command ends and until the bytes are on the disk.
    The best of three runs counts."""
    folder = lab.row_folder("synth-dd")
    rates = {"synth": ([], []), "dd": ([], [])}

    def timed(side, path, command):
        begin = time.monotonic()
        lab.run("synth-dd", command).expect()
        ended = time.monotonic()
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        size = os.path.getsize(path)
        for rate, end in zip(rates[side], (ended, time.monotonic())):
            rate.append(size / (end - begin) / 1e6)
        path.unlink()
        return size

    try:
        for _ in range(ROUNDS):
            size = timed("synth", folder / "clicks.tsv", [lab.program(), "synth", folder / "clicks.tsv", "--rows", 1_000_000, "--json"])
            blocks = max(1, size >> 20)
            timed("dd", folder / "zeros", ["dd", "if=/dev/zero", f"of={folder / 'zeros'}", "bs=1M", f"count={blocks}"])
    except FileNotFoundError as error:
        raise Broken(f"{error.filename} was not written") from None
    for what, own, other in zip(("rate, of dd's", "rate until on the disk, of dd's"), rates["synth"], rates["dd"]):
        ours, theirs = max(own), max(other)
        yield at_least(what, ours / theirs, 0.25, "", f"{ours:.0f} of {theirs:.0f} MB/s")
