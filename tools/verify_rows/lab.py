"""The environment of rows: folders, data, rival programs, and commands with a time limit that leave no process running."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .frame import Broken, NotRun, is_true

CHECKOUT = Path(__file__).resolve().parent.parent.parent


@dataclass
class Ended:
    """A command that has ended. `cpu_s` includes all descendants that were waited for."""
    command: list
    code: int
    out: str
    err: str
    wall_s: float
    cpu_s: float
    peak_bytes: int  # resident memory of the largest of these processes

    def expect(self, code=0):
        if self.code != code:
            said = (self.err.strip() or self.out.strip()).splitlines()[-3:]
            raise Broken(f"`{' '.join(map(str, self.command))}` ended with {self.code}, not {code}: {' / '.join(said)}")
        return self

    def summary(self):
        """Returns the JSON object on the last line of stdout."""
        try:
            return json.loads(self.out.strip().splitlines()[-1])
        except (IndexError, ValueError):
            raise Broken(f"`{' '.join(map(str, self.command))}` printed no JSON") from None


class Running:
    """A command in its own session. Leaving the `with` block kills all of its processes that still run."""

    def __init__(self, command, folder, timeout_s, env=None, cwd=None):
        self.command = [str(part) for part in command]
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("*.out")))
        self._paths = [folder / f"{number:02d}-{Path(self.command[0]).name}.{end}" for end in ("out", "err")]
        self._timeout_s = timeout_s
        self._timed_out = False
        self._ended = None
        with open(self._paths[0], "wb") as out, open(self._paths[1], "wb") as err:
            self._start = time.monotonic()
            try:
                self._child = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                               env=env, cwd=cwd, start_new_session=True)
            except OSError as error:
                raise Broken(f"can't start {self.command[0]}: {error}") from None
        self.pid = self._child.pid
        self._timer = threading.Timer(timeout_s, self._on_timeout)
        self._timer.daemon = True
        self._timer.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._timer.cancel()
        self._kill_session()
        if self._ended is None:
            self._child.wait()

    def age_s(self):
        return time.monotonic() - self._start

    def is_running(self):
        return self._ended is None and os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def wait(self):
        """Waits for the end and returns Ended. Raises Broken if the time limit ended the command."""
        if self._ended is None:
            _, status, usage = os.wait4(self.pid, 0)
            wall_s = self.age_s()
            self._timer.cancel()
            self._child.returncode = os.waitstatus_to_exitcode(status)
            out, err = (path.read_text(errors="replace") for path in self._paths)
            self._ended = Ended(self.command, self._child.returncode, out, err, wall_s, usage.ru_utime + usage.ru_stime,
                                usage.ru_maxrss * 1024)
        if self._timed_out:
            raise Broken(f"`{' '.join(self.command)}` had not ended after {self._timeout_s:.0f} s")
        return self._ended

    def output(self):
        return self._paths[0].read_text(errors="replace")

    def errors(self):
        return self._paths[1].read_text(errors="replace")

    def _on_timeout(self):
        self._timed_out = True
        self._kill_session()

    def _kill_session(self):
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass


class Lab:
    def __init__(self, full=False):
        self.full = full
        self.bin = CHECKOUT / "build/release/bin"
        self.peers_build = CHECKOUT / "build/peers"
        self.data_dir = Path(os.environ.get("DOWNPOUR_DATA") or CHECKOUT.parent / "shared/data").resolve()
        self.peers_dir = Path(os.environ.get("DOWNPOUR_PEERS") or CHECKOUT.parent / "shared/peers").resolve()
        self.folder = CHECKOUT / "build/verify"
        self._memo = {}
        self._began = set()

    # -- folders and files

    def row_folder(self, name):
        """Returns build/verify/NAME. The first call empties it."""
        folder = self.folder / name
        if name not in self._began:
            self._began.add(name)
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def data(self, name):
        path = self.data_dir / name
        if not path.exists():
            raise NotRun(f"no data at {path} (DOWNPOUR_DATA names its folder)")
        return path

    def peer(self, name):
        path = self.peers_dir / name
        if not path.exists():
            raise NotRun(f"no peer at {path} (DOWNPOUR_PEERS names its folder)")
        return path

    def once(self, key, make):
        """Returns the result of the first make(). It also remembers a failure, so that no row waits for it again."""
        if key not in self._memo:
            try:
                self._memo[key] = (make(), None)
            except (Broken, NotRun) as error:
                self._memo[key] = (None, error)
        value, error = self._memo[key]
        if error is not None:
            raise error
        return value

    # -- commands

    def start(self, row, command, timeout_s=300, env=None, cwd=None):
        """Returns a Running for a `with` statement. Its environment has no DOWNPOUR_* variable except DOWNPOUR_DATA."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("DOWNPOUR_")}
        clean |= {"DOWNPOUR_DATA": str(self.data_dir), "LC_ALL": "C.UTF-8"} | (env or {})
        return Running(command, self.row_folder(row) / "log", timeout_s, clean, cwd or CHECKOUT)

    def run(self, row, command, timeout_s=300, env=None, cwd=None):
        with self.start(row, command, timeout_s, env, cwd) as running:
            return running.wait()

    def program(self, name="downpour"):
        """The path of a program of the release build, which is built first if it is missing: tools/quickstart builds
        neither tests nor benchmarks."""
        return self._built(name, self.bin / name)

    def library(self):
        """The path of libdownpour.so, which is built first if it is missing."""
        return self._built("libdownpour.so", self.bin.parent / "package/lib/libdownpour.so")

    def _built(self, target, path):
        if not path.exists():
            self.once(("build", target), lambda: self._build(target))
        return path

    def _build(self, name):
        for step in (["cmake", "--preset", "release", "-DDP_TESTS=ON"],
                     ["cmake", "--build", "--preset", "release", "--target", name]):
            self.run("build", step, timeout_s=3600).expect()

    def train_command(self, job, run_dir, *flags):
        """Returns the command that trains a job of docs/examples or of a path, with its summary as JSON on stdout."""
        path = job if os.sep in str(job) else CHECKOUT / "docs/examples" / job
        return [self.program(), "train", path, "--fresh", "--quiet", "--log-format", "json", "--set", f"run_dir={run_dir}", *flags]

    def train(self, row, job, *flags, prefix=(), env=None, timeout_s=300):
        """Trains a job. Returns an Ended with code 0, or raises Broken."""
        command = [*prefix, *self.train_command(job, self.row_folder(row) / "run", *flags)]
        return self.run(row, command, timeout_s, env).expect()

    def train_by_hand(self, row, job, settings, insecure=False, env=None, timeout_s=600):
        """Trains a job with a chief, ps and workers that are started by hand and use TCP on loopback. `settings` has cluster.ps,
        a number or "in_workers", and cluster.workers. Returns the summary of the chief, which has ended with code 0."""
        run_dir = self.row_folder(row) / "run"
        address = f"127.0.0.1:{free_port()}"
        members = ["--insecure"] if insecure else ["--keys", run_dir / "keys"]
        chief = [self.program("downpour-chief"), job, "--bind", address, "--json", "--fresh", *(["--insecure"] if insecure else [])]
        for key, value in {"run_dir": run_dir, **settings}.items():
            chief += ["--set", f"{key}={value}"]
        worker = ["--threads", 1]
        ps = settings["cluster.ps"]
        if ps == "in_workers":
            ps = 0
            worker.append("--with-ps")
        with contextlib.ExitStack() as stack:
            running = stack.enter_context(self.start(row, chief, timeout_s, env))
            for role, count, more in (("ps", ps, []), ("worker", settings["cluster.workers"], worker)):
                for index in range(count):
                    command = [self.program(f"downpour-{role}"), "--chief", address, "--index", index, *more, *members]
                    stack.enter_context(self.start(row, command, timeout_s, env))
            summary = running.wait().expect().summary()
        if summary["insecure"] != insecure:
            raise Broken("the summary does not say whether the job had keys")
        return summary

    def synth(self, row, name, rows, stream=0, *flags):
        """Generates click data in the row's folder. Returns the path and the JSON output of `downpour synth`."""
        path = self.row_folder(row) / name
        made = self.run(row, [self.program(), "synth", path, "--rows", rows, "--stream", stream, "--json", *flags])
        return path, made.expect().summary()

    def bench(self, part, run=0, settle_s=0):
        """Returns the results of `downpour bench PART` by name. Waits `settle_s` first. Each `run` number is measured once."""
        def measure():
            time.sleep(settle_s)
            found = self.run(f"bench-{part}", [self.program(), "bench", part, "--json"], timeout_s=900).expect().summary()
            return {result["name"]: result for result in found["results"]}
        return self.once(("bench", part, run), measure)


def suite_check(what, ended):
    """Returns the check of a run of tools/test. It must have run tests, and all must have passed."""
    said = re.search(r"^(\d+)% tests passed, \d+ tests failed out of (\d+)$", ended.out, re.MULTILINE)
    passed = ended.code == 0 and said is not None and said[1] == "100" and int(said[2]) > 0
    return is_true(what, passed, "exit 0, all passed", f"exit {ended.code}, {said[0] if said else 'no test ran'}",
                   f"{ended.wall_s:.0f} s, build of all tests included")


def named(results, name):
    if name not in results:
        raise Broken(f"`downpour bench` has no result named \"{name}\"")
    return results[name]


def outputs(summary, output=None):
    """Returns the metrics of the last evaluation for the named output, or for the first one."""
    if not summary["evaluations"]:
        raise Broken("the summary has no evaluation")
    metrics = summary["evaluations"][-1]["outputs"]
    return metrics[output] if output else next(iter(metrics.values()))


def balanced(summary, records):
    """Describes the errors in the accounts of all epochs; "" if every epoch balances and has read all records."""
    wrong = [] if summary["accounts"] else ["no account"]
    for account in summary["accounts"]:
        parts = sum(account[key] for key in ("applied", "filtered", "skipped", "dropped", "quarantined"))
        if account["read"] != parts or account["read"] != records:
            wrong.append(f"epoch {account['epoch']}: read {account['read']}, accounted for {parts}, records {records}")
    return "; ".join(wrong)


def descendants(pid):
    """Returns {pid: program} of all descendants of `pid`."""
    parent_of, program_of = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        number, rest = text.split(" (", 1)
        program, fields = rest.rsplit(") ", 1)
        parent_of[int(number)] = int(fields.split()[1])
        program_of[int(number)] = program
    found, frontier = {}, [pid]
    while frontier:
        above = frontier.pop()
        for child, parent in parent_of.items():
            if parent == above and child not in found:
                found[child] = program_of[child]
                frontier.append(child)
    return found


def workers_below(pid):
    """Returns the worker processes below `pid` in ascending order. It excludes the children of workers, which have the same
    program name until they execute another program."""
    workers = {child for child, program in descendants(pid).items() if program == "downpour-worker"}
    return sorted(workers - {started for worker in workers for started in descendants(worker)})


def two_cores():
    """Returns a `taskset` prefix for two of the cores that this process may use."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    return ["taskset", "-c", ",".join(map(str, cores))]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def machine():
    """Returns the properties of the machine and of the checkout on which figures depend."""
    model = next((line.split(": ", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown processor")
    git = subprocess.run(["git", "-C", CHECKOUT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1),
            "commit": git.stdout.strip() or "unknown", "date": time.strftime("%Y-%m-%d")}


