"""Cases that kill the local processes of `downpour train`, which restarts them."""
import json
import os
import re
import signal
import time

from cluster import TURN_S, Events, Started, balanced, check, children, start_process

PROGRAM = re.compile(r"/downpour-(ps|worker) .*--index (\d+)")  # in the command line of a local process
SHARDS_BETWEEN_KILLS = 5
PAUSE_BETWEEN_KILLS_S = 0.2  # several ticks of the chief, which counts progress at a tick


class LocalTrain(Started):
    """`downpour train` of a counter model with 2 local ps and `workers` local workers.

    `restarts` is the setting `cluster.restarts`. `kills_planned` is the number of calls of kill() that the case makes.
    """

    def __init__(self, lab, counter, restarts, workers=3, kills_planned=0):
        self.lab, self.counter = lab, counter
        self.kills_planned, self.kills = kills_planned, 0
        self.run_dir = counter.folder / "run"
        self.events = Events(self.run_dir / "events.jsonl")
        self.command = [lab.bin / "downpour", "train", counter.job, "--ps", 2, "--workers", workers, "--transport", "tcp", "--log-format", "json",
                        "--set", f"run_dir={self.run_dir}", "--set", f"cluster.restarts={restarts}"]

    def __enter__(self):
        with open(self.counter.folder / "summary", "wb") as out:
            self.process = start_process(self.command, self.counter.folder / "train.log", stdout=out)
        return self

    def running(self):
        """Returns {(role, index): pid} of the local processes that run their program. A process that was killed is not among them."""
        found = {}
        for pid, line in children(self.process.pid).items():
            if named := PROGRAM.search(line):
                found[(named[1], int(named[2]))] = pid
        return found

    def log(self):
        return (self.counter.folder / "train.log").read_text()

    def wait_until(self, condition, what, timeout_s=60):
        """Waits until the condition holds. Returns its value."""
        limit = time.monotonic() + timeout_s
        while not (value := condition()):
            status = self.process.poll()
            check(status is None, f"the job had ended after {self.kills} of {self.kills_planned} kills, with exit status {status}, before this: {what}: "
                                  f"{self.log()[-300:]}")
            check(time.monotonic() < limit, f"not within {timeout_s} s: {what}, after {self.kills} of {self.kills_planned} kills: {self.log()[-300:]}")
            time.sleep(TURN_S)
        return value

    def wait_trained(self, shards):
        """Waits until that many more shards have ended."""
        def ended():
            self.events.read()
            return self.events.count("ended")
        wanted = ended() + shards
        self.wait_until(lambda: ended() >= wanted, f"{shards} more shards ended")

    def kill(self, role, index):
        """Waits until the job makes progress and the process runs. Then kills the process with SIGKILL and waits until its replacement runs.

        The wait for the replacement makes the number of restarts exact: a job that ends during the pause before a restart drops that restart.
        """
        self.wait_trained(SHARDS_BETWEEN_KILLS)
        time.sleep(PAUSE_BETWEEN_KILLS_S)
        victim = self.wait_until(lambda: self.running().get((role, index)), f"{role} {index} runs")
        try:
            os.kill(victim, signal.SIGKILL)
            self.kills += 1
        except ProcessLookupError:
            pass  # the job ends; the next wait reports it
        self.wait_until(lambda: self.running().get((role, index), victim) != victim, f"{role} {index} was restarted")

    def prove(self):
        """Checks, at the end of the job, that the account balances, every weight is exact, and each kill led to one restart."""
        status = self.process.wait(timeout=180)
        check(status == 0, f"train ended with {status}: {self.log()[-500:]}")
        summary = json.loads((self.counter.folder / "summary").read_text().splitlines()[-1])
        balanced(summary, self.counter.records, self.counter.epochs)
        wrong = self.counter.wrong(self.lab.bin, self.run_dir)
        check(not wrong, wrong)
        check(summary["restarts"] == self.kills, f"{summary['restarts']} restarts in the summary after {self.kills} kills: {self.log()[-500:]}")
        notices = self.log().count("it is restarted")
        check(notices == self.kills, f"{notices} restarts in the log after {self.kills} kills: {self.log()[-500:]}")
        return {"kills": self.kills, "restarts": summary["restarts"], "weights": f"all {self.counter.epochs}"}


# ---- the cases ---------------------------------------------------------------------------------------------------------------

LOCAL = [("ps", 0), ("worker", 0), ("ps", 1), ("worker", 1), ("ps", 0), ("worker", 2)]


def kill_local(lab):
    kills = lab.pick(3, 12)
    with LocalTrain(lab, lab.counter(2.5 * kills + 2), restarts=kills, kills_planned=kills) as train:
        for number in range(kills):
            train.kill(*LOCAL[number % len(LOCAL)])
        return train.prove()


def again_and_again(lab):
    """Kills one worker more often than `cluster.restarts` allows without progress."""
    limit = 2
    kills = limit + 1
    with LocalTrain(lab, lab.counter(10), restarts=limit, kills_planned=kills) as train:  # the kills take about 2 s
        for _ in range(kills):
            train.kill("worker", 1)
        return train.prove()


def crash_loop(lab):
    with LocalTrain(lab, lab.counter(3), restarts=3, workers=1) as train:
        killed = set()
        deadline = time.monotonic() + 60
        while train.process.poll() is None:
            check(time.monotonic() < deadline, f"still running after {len(killed)} kills: {train.log()[-300:]}")
            # A batch is applied only while both ps run.
            for pid in {pid for (role, _), pid in train.running().items() if role == "ps"} - killed:
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed.add(pid)
                except ProcessLookupError:
                    pass  # `downpour train` has ended it
            time.sleep(0.02)
        check(train.process.returncode == 69, f"ended with {train.process.returncode}: {train.log()[-300:]}")
        check("DP-4004" in train.log(), f"no DP-4004: {train.log()[-300:]}")
        return {"kills": len(killed)}
