"""Serving: the latency of `downpour serve` at a fixed rate, during reloads, and while other clients misbehave."""
import contextlib
import itertools
import json
import shutil
import socket
import threading
import time
import urllib.request

from .frame import Broken, at_most, is_true, row
from .lab import free_port

RATE, SECONDS, RELOADS = 5000, 10, 20

JOB = """\
run_dir = "run"
model     = { preset = "wide_deep", dim = 16, units = [64, 32] }
optimizer = { type = "adagrad", learning_rate = 0.02 }
train     = { epochs = 1, batch_size = 512, checkpoint = { keep = 50 } }
eval      = { holdout = 0 }
[data]
source = "train.tsv"
format = "criteo"
fields."I1..I13" = { type = "float32", default = 0 }
fields."C1..C26" = { type = "string", default = "", transform = [{ op = "hash", buckets = 1048576 }] }
"""


@row("serve", "downpour serve, Wide & Deep 64-32, 10 rows a request")
def serve(lab):
    folder = lab.row_folder("serve")
    lab.synth("serve", "train.tsv", 30_000)
    (folder / "job.toml").write_text(JOB)
    (folder / "body.json").write_text(json.dumps({"rows": _rows(folder / "train.tsv", 10)}))
    lab.run("serve", [lab.program(), "train", folder / "job.toml", "--quiet", "--epochs", 2 * RELOADS]).expect()
    checkpoints = _checkpoints(folder / "run")
    if len(checkpoints) <= RELOADS:
        raise Broken(f"training kept only {len(checkpoints)} checkpoints")
    shutil.copytree(folder / "run", folder / "served", ignore=shutil.ignore_patterns(*checkpoints[1:], *map(_manifest, checkpoints[1:])))
    port = free_port()
    command = [lab.program(), "serve", folder / "served", "--port", port, "--poll", 0.1, "--timeout", 1]
    with lab.start("serve", command, 600) as serving:
        _wait_until_ready(serving, port)
        quiet = _load(lab, folder, port, SECONDS)
        yield at_most(f"p99 at {RATE}/s, 8 connections", quiet["p99_ms"], 1, " ms", _note(quiet))
        yield is_true("requests that failed", quiet["failed"] == 0, "0", str(quiet["failed"]), f"of {quiet['sent']}")
        reloading, seen = _during(lambda: _load(lab, folder, port, SECONDS * 4), lambda: _reload(folder, port, checkpoints[1:RELOADS + 1]))
        yield at_most(f"p99 while {RELOADS} checkpoints load", reloading["p99_ms"], 10, " ms", _note(reloading))
        yield is_true(f"failed requests during {RELOADS} reloads", reloading["failed"] == 0 and seen == RELOADS, "0",
                      str(reloading["failed"]), f"of {reloading['sent']}; {seen} reloads")
        attacked, statuses = _during(lambda: _load(lab, folder, port, SECONDS), lambda: _attack(port))
        yield at_most("p99 while others send wrong requests", attacked["p99_ms"], 10, " ms", _note(attacked))
        yield is_true("malformed, oversized, slow", statuses == {400, 408, 413}, "400, 413, 408",
                      ", ".join(map(str, sorted(statuses))), f"{attacked['failed']} of {attacked['sent']} others failed")
        yield is_true("requests of others that failed", attacked["failed"] == 0, "0", str(attacked["failed"]))


def _rows(path, count):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in itertools.islice(file, count)]
    names = [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
    return [{name: (None if cell == "" else float(cell) if name[0] == "I" else cell)
             for name, cell in zip(names, cells[1:])} for cells in lines]


def _get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
        return reply.read().decode()


def _wait_until_ready(serving, port):
    for _ in range(600):
        with contextlib.suppress(OSError):
            return _get(port, "/healthz")
        if not serving.is_running():
            serving.wait().expect()
        time.sleep(0.05)
    raise Broken("serve does not answer")


def _load(lab, folder, port, seconds):
    command = [lab.program("serve_load"), f"127.0.0.1:{port}", folder / "body.json", "--rate", RATE, "--seconds", seconds]
    return lab.run("serve", command, seconds + 60).expect().summary()


def _note(load):
    return f"p50 {load['p50_ms']}, p99.9 {load['p999_ms']}, max {load['max_ms']} ms; {load['rate']:.0f} requests/s"


def _during(main, other):
    """Runs `other` on a thread while `main` runs. Returns the results of both."""
    results = []
    thread = threading.Thread(target=lambda: results.append(other()))
    thread.start()
    first = main()
    thread.join()
    if not results:
        raise Broken("the other half of the measurement failed")
    return first, results[0]


def _checkpoints(run):
    """Returns the numbers of the checkpoints, such as "1-7", from the oldest to the newest."""
    names = [path.name for path in (run / "checkpoints").iterdir() if path.is_dir()]
    return sorted(names, key=lambda name: [int(part) for part in name.split("-")])


def _manifest(checkpoint):
    return f"manifest-{checkpoint}.dpm"


def _reload(folder, port, checkpoints):
    """Publishes checkpoints one by one, as a trainer does: images first. Returns how many were loaded."""
    source, served = folder / "run/checkpoints", folder / "served/checkpoints"
    loaded = 0
    for checkpoint in checkpoints:
        shutil.copytree(source / checkpoint, served / checkpoint)
        shutil.copyfile(source / _manifest(checkpoint), served / "copied")
        (served / "copied").rename(served / _manifest(checkpoint))
        for _ in range(100):
            time.sleep(0.05)
            if json.loads(_get(port, "/healthz"))["model"] == checkpoint:
                loaded += 1
                break
    return loaded


def _attack(port):
    """Sends malformed, oversized and slow requests. Returns the statuses."""
    head = b"POST /v1/predict HTTP/1.1\r\nHost: a\r\nContent-Length: "
    statuses = set()
    slow = []
    for _ in range(50):
        slow.append(_send(port, head + b"100\r\n\r\n{"))
        for wrong in (b"nonsense\r\n\r\n", head + b"1\r\n\r\n{", head + b"99999999\r\n\r\n" + b"x" * 100_000):
            statuses.add(_status(_send(port, wrong)))
        time.sleep(0.05)
    return statuses | {_status(client) for client in slow}


def _send(port, request):
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    with contextlib.suppress(OSError):
        client.sendall(request)
    return client


def _status(client):
    with client:
        return int(client.recv(4096)[9:12] or 0)
