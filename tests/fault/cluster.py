"""Starts the processes of a job as a user starts them by hand, and kills, stops and restarts them.

There is one thread. Every wait calls Cluster.turn(), which restarts killed processes and reads the
event file. All processes die with this one.
"""
import ctypes
import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

TURN_S = 0.01
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """A check has failed."""


def check(condition, text):
    if not condition:
        raise Failed(text)


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def _die_with_parent():
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start_process(command, log, **options):
    """Starts a process. Its output is appended to the log, so several processes can share a log."""
    with open(log, "ab") as out:
        return subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=options.pop("stdout", out),
                                stderr=out, preexec_fn=_die_with_parent, **options)


class Started:
    """Something that started `process`. Its context kills the process if it still runs at the end."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _stands(thread):
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] in "TZX"
    except OSError:
        return True  # it has ended


def stop(process, timeout_s=10):
    """Sends SIGSTOP and waits until every thread has stopped.

    The threads keep running until one of them handles the signal, which can take long on a busy
    machine.
    """
    check(process.poll() is None, f"process {process.pid} had ended before SIGSTOP")
    process.send_signal(signal.SIGSTOP)
    limit = time.monotonic() + timeout_s
    while not all(_stands(thread) for thread in Path(f"/proc/{process.pid}/task").iterdir()):
        check(time.monotonic() < limit, f"process {process.pid} did not stop in {timeout_s} s")
        time.sleep(TURN_S / 10)


class Scratch:
    """A temporary folder.

    It is removed at the end, unless an exception occurred and `keep` is set.
    """

    def __init__(self, keep=False):
        self._keep = keep
        self.path = Path(tempfile.mkdtemp(prefix="dp-fault-"))

    def __enter__(self):
        return self.path

    def __exit__(self, kind, *_):
        if kind is None or not self._keep:
            shutil.rmtree(self.path, ignore_errors=True)


class Events:
    """The events of a run in order, each with the time at which this program read it."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self.seen = []  # (monotonic seconds, event)

    def read(self):
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                text = file.read()
        except FileNotFoundError:
            return
        end = text.rfind(b"\n") + 1
        self._offset += end
        now = time.monotonic()
        for line in text[:end].splitlines():
            try:
                self.seen.append((now, json.loads(line)))
            except ValueError:
                pass  # the chief was killed in the middle of a line

    def count(self, name, **fields):
        return sum(1 for _, event in self.seen if event.get("event") == name and all(event.get(k) == v for k, v in fields.items()))

    def total(self, name, field):
        return sum(event[field] for _, event in self.seen if event.get("event") == name)

    def times(self, name):
        return [at for at, event in self.seen if event.get("event") == name]


class Member:
    """A chief, ps, worker or input process, over any number of starts."""

    def __init__(self, role, index):
        self.role, self.index = role, index
        self.process = None
        self.starts = 0
        self.killed = False   # this program killed it and will restart it
        self.leaving = False  # it was asked to leave

    @property
    def name(self):
        return self.role if self.role == "chief" else f"{self.role} {self.index}"


class Cluster:
    """A chief, ps, workers and input processes on loopback.

    `chief_at` is the address at which the other processes look for the chief, if it is not the
    chief's own address. All processes use the keys that the chief makes in the run folder, or no
    keys if `insecure` is set.
    """

    def __init__(self, bin_dir, folder, job, ps=2, workers=3, inputs=0, flags=(), chief_at=None, ps_hosts=None, restarts=True, environment=None, prefix=(), insecure=False):
        self.bin, self.folder, self.job = Path(bin_dir), Path(folder), Path(job)
        self.run_dir = self.folder / "run"
        self.flags = ["--set", f"run_dir={self.run_dir}", "--set", f"cluster.ps={ps}", "--set", f"cluster.workers={workers}",
                      "--set", f"cluster.input_workers={inputs}", *flags]
        self.chief_port = free_port()
        self.chief_at = chief_at or f"127.0.0.1:{self.chief_port}"
        self.ps_hosts = ps_hosts or {}  # index: (port, advertised host)
        self.restarts = restarts
        self.environment = environment
        self.prefix = prefix  # put in front of every command, such as prlimit
        self.insecure = insecure
        self.events = Events(self.run_dir / "events.jsonl")
        self.members = {("chief", 0): Member("chief", 0)}
        self.members |= {("ps", i): Member("ps", i) for i in range(ps)}
        self.members |= {("worker", i): Member("worker", i) for i in range(workers)}
        self.members |= {("input", i): Member("input", i) for i in range(inputs)}
        self.extra = []
        self.kills = 0
        self.unasked = []  # processes that ended by themselves before the job did
        self.finished = False

    def __enter__(self):
        for member in self.members.values():
            self.start(member)
        return self

    def __exit__(self, *_):
        for process in [m.process for m in self.members.values()] + self.extra:
            if process is None or process.poll() is not None:
                continue
            process.kill()
            process.wait()

    def keys(self):
        """Returns the flags that give a member its key."""
        return ["--insecure"] if self.insecure else ["--keys", self.run_dir / "keys"]

    def command(self, role, index=0):
        program = self.bin / ("downpour-worker" if role == "input" else f"downpour-{role}")
        if role == "chief":
            return [program, self.job, "--bind", f"tcp://127.0.0.1:{self.chief_port}", "--json", *self.flags, *(["--insecure"] if self.insecure else [])]
        more = ["--threads", 1, "--role", "input"] if role == "input" else ["--threads", 1]
        if role == "ps" and index in self.ps_hosts:
            port, host = self.ps_hosts[index]
            more += ["--bind", f"tcp://127.0.0.1:{port}", "--advertise", host]
        return [program, "--chief", self.chief_at, "--index", index, *self.keys(), *more]

    def log(self, name):
        return self.folder / (name.replace(" ", "-") + ".log")

    def start(self, member):
        options = {"env": self.environment} if self.environment else {}
        if member.role == "chief":
            options["stdout"] = open(self.folder / "summary", "wb")
        member.process = start_process([*self.prefix, *self.command(member.role, member.index)], self.log(member.name), **options)
        member.starts += 1
        member.killed = False

    def join(self, role, index):
        """Starts an additional member."""
        self.members[(role, index)] = Member(role, index)
        self.start(self.members[(role, index)])

    def leave(self, role, index):
        """Asks a member to leave with SIGTERM. After its end turn() removes it from `members`.

        First waits until the chief has welcomed the member, because a starting process does not
        handle signals yet.
        """
        member = self.member(role, index)
        here = lambda: any(event.get("event") == "hello" and event.get("pid") == member.process.pid for _, event in self.events.seen)  # noqa: E731
        self.wait_until(here, f"{member.name} is in the job")
        member.leaving = True
        member.process.send_signal(signal.SIGTERM)

    def member(self, role, index=0):
        return self.members[(role, index)]

    def signal(self, role, index, number):
        member = self.member(role, index)
        check(member.process.poll() is None, f"{member.name} had ended before {number.name}, after {self.kills} kills: {self.last_words()}")
        if number == signal.SIGKILL:
            member.killed = True
            self.kills += 1
        if number == signal.SIGSTOP:
            stop(member.process)
        else:
            member.process.send_signal(number)
        return member

    def kill(self, role, index=0):
        """Kills a member with SIGKILL. The next turn restarts it if `restarts` is set."""
        self.signal(role, index, signal.SIGKILL).process.wait()

    def turn(self):
        """Reads new events, restarts killed members, and records members that ended by themselves.

        Sleeps TURN_S.
        """
        self.events.read()
        for member in list(self.members.values()):
            status = member.process.poll()
            if status is None or self.finished:
                continue
            if member.leaving and status == 0:
                del self.members[(member.role, member.index)]
                continue
            if member.role == "chief" and not member.killed:
                self.finished = True
                continue
            if member.killed:
                if self.restarts:
                    self.start(member)
            elif status != 0:  # 0 means that the job has ended
                self.unasked.append(f"{member.name} ended with {status}")
                member.killed = True
        time.sleep(TURN_S)

    def wait_until(self, condition, what, timeout_s=60):
        limit = time.monotonic() + timeout_s
        while not condition():
            check(not self.finished, f"the job ended while waited: {what}; {self.last_words()}")
            check(time.monotonic() < limit, f"not within {timeout_s} s: {what}; {self.last_words()}")
            self.turn()

    def pause(self, seconds):
        """Calls turn() for that many seconds, or until the job ends."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit and not self.finished:
            self.turn()

    def wait_trained(self, shards, timeout_s=60):
        """Waits until that many more shards have ended."""
        wanted = self.events.count("ended") + shards
        self.wait_until(lambda: self.events.count("ended") >= wanted, f"{shards} shards ended", timeout_s)

    def wait_chief(self, timeout_s, what):
        """Waits until the chief has ended. Returns its exit status."""
        limit = time.monotonic() + timeout_s
        while not self.finished:
            check(time.monotonic() < limit, f"{what}: the chief still ran after {timeout_s} s: {self.last_words()}")
            self.turn()
        self.events.read()
        return self.member("chief").process.wait()

    def finish(self, timeout_s=120, code=0):
        """Waits until all processes have ended, and the chief with that exit status.

        Returns the chief's summary.
        """
        status = self.wait_chief(timeout_s, "the job")
        check(status == code, f"the chief ended with {status}, not {code}: {self.last_words()}")
        for member in self.members.values():
            try:
                member.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                raise Failed(f"{member.name} still runs 10 s after the chief's end") from None
        return json.loads((self.folder / "summary").read_text().splitlines()[-1])

    def last_words(self):
        said = []
        for member in self.members.values():
            log = self.log(member.name)
            lines = [line for line in log.read_text(errors="replace").splitlines() if '"progress"' not in line] if log.exists() else []
            if lines:
                said.append(f"{member.name}: {lines[-1][:300]}")
        return " / ".join(said)


# ---- the counter model ---------------------------------------------------------------------------------------------------

COUNTER_JOB = """partitions = 64
[data]
source = "counter.svm"
format = "libsvm"
shard_records = {shard}
[[model.layers]]
name = "w"
type = "linear"
inputs = ["features"]
bias = false
[[model.outputs]]
name = "y"
input = "w"
loss = "squared"
target = "label"
[optimizer]
type = "sgd"
learning_rate = 4.656612873077392578125e-10
[train]
epochs = {epochs}
batch_size = {batch}
reduction = "sum"
"""


class Counter:
    """A job with one feature per record, whose weights are exactly E after E epochs.

    In float32 the gradient of (w - 2^30)^2 is exactly -2^31 while w < 32. The learning rate is
    2^-31.
    """

    EPOCHS_MAX = 30

    def __init__(self, folder, records, epochs, batch=50, shard=1000):
        check(epochs <= self.EPOCHS_MAX, "the counter model is exact for 30 epochs")
        self.folder, self.records, self.epochs = Path(folder), records, epochs
        self.data = self.folder / "counter.svm"
        self.data.write_text("".join(f"1073741824 {1000000 + key}:1\n" for key in range(records)))
        self.job = self.folder / "counter.toml"
        self.job.write_text(COUNTER_JOB.format(shard=shard, epochs=epochs, batch=batch))

    def wrong(self, bin_dir, run_dir):
        """Returns a text about the weights that are not exact, or an empty text.

        A prediction for a key is its weight.
        """
        told = subprocess.run([str(bin_dir / "downpour"), "predict", str(run_dir), "--data", str(self.data)], capture_output=True, text=True,
                              check=False, timeout=120)
        check(told.returncode == 0, f"predict ended with {told.returncode}: {told.stderr.strip()[-300:]}")
        weights = [float(line) for line in told.stdout.split()]
        check(len(weights) == self.records, f"{len(weights)} weights for {self.records} keys")
        other = [(key, weight) for key, weight in enumerate(weights) if weight != self.epochs]
        return f"{len(other)} of {self.records} weights are not {self.epochs}, such as key {other[0][0]}: {other[0][1]}" if other else ""


def balanced(summary, records, epochs):
    """Checks that the account of every epoch counts every record once."""
    accounts = summary["accounts"]
    check(len(accounts) == epochs, f"{len(accounts)} accounts for {epochs} epochs")
    for account in accounts:
        parts = sum(account[key] for key in ("applied", "filtered", "skipped", "dropped", "quarantined"))
        check(account["read"] == parts == records, f"epoch {account['epoch']}: read {account['read']}, accounted for {parts}, records {records}")


def children(pid):
    """Returns {pid: command line} of the children of a process."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
            if int(fields[1]) == pid and fields[0] != "Z":
                found[int(stat.parent.name)] = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found
