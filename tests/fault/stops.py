"""Cases with stop signals at random moments.

Each signal must lead to a checkpoint and exit status 130 or 143. A run is stopped several times and
resumed each time by the same command. Then it is trained to its end. Its account must balance, and
every weight of the counter model must be exact.
"""
import json
import os
import random
import signal
import subprocess
import time

from cluster import TURN_S, Cluster, Counter, Started, balanced, check, children, start_process

FORMS = {"2 ps + 2 workers": ["--ps", 2, "--workers", 2], "one process": []}
STOPS_PER_RUN = 4
PLAIN_SECONDS = 2.0   # minimum duration of a job, so that the moments reach all its phases
END_SECONDS_MAX = 60  # from the signal to the end of the process; far longer than a stop takes
GAP_SECONDS_MAX = 0.4  # between the signals to two processes of a subset


def commands(lab, counter, run_dir, form):
    return [lab.bin / "downpour", "train", counter.job, "--log-format", "json", "--set", f"run_dir={run_dir}", *FORMS[form]]


class Life(Started):
    """One start of `downpour train`, with its child processes, in its own process group."""

    def __init__(self, lab, counter, run_dir, form):
        self.run_dir = run_dir
        self.out = run_dir.parent / (run_dir.name + ".out")
        self.log = run_dir.parent / (run_dir.name + ".log")
        self.events_at = self._events_bytes()
        with open(self.out, "wb") as out:
            self.process = start_process(commands(lab, counter, run_dir, form), self.log, stdout=out, start_new_session=True)
        self.started = time.monotonic()

    def _events_bytes(self):
        path = self.run_dir / "events.jsonl"
        return path.stat().st_size if path.exists() else 0

    def events(self):
        """Returns the names of the events since this start, in order."""
        path = self.run_dir / "events.jsonl"
        if not path.exists():
            return []
        lines = path.read_bytes()[self.events_at:].decode(errors="replace").splitlines()
        return [json.loads(line).get("event") for line in lines if line.endswith("}")]

    def wait_until(self, moment):
        """Waits until `moment` seconds after the start. Returns False if the job has ended."""
        while time.monotonic() < self.started + moment:
            if self.process.poll() is not None:
                return False
            time.sleep(TURN_S / 5)
        return self.process.poll() is None

    def targets(self):
        """Returns {name: pid} of `downpour train` and its running local processes."""
        found = {"train": self.process.pid}
        for pid, line in children(self.process.pid).items():
            words = line.split()
            role = "ps" if "downpour-ps" in line else "worker" if "downpour-worker" in line else "child"
            index = words[words.index("--index") + 1] if "--index" in words else str(pid)
            found[f"{role} {index}"] = pid
        return found

    def send(self, rng, what, number):
        """Signals the group, one process or a random subset, once each.

        Returns their names in that order.
        """
        if what == "group":
            os.killpg(self.process.pid, number)
            return ["group"]
        targets = self.targets()
        if what == "single":
            chosen = [rng.choice(sorted(targets))]
        else:
            chosen = rng.sample(sorted(targets), rng.randint(1, len(targets)))
        for place, name in enumerate(chosen):
            if place > 0:
                time.sleep(rng.uniform(0, GAP_SECONDS_MAX) * rng.randint(0, 1))
            try:
                os.kill(targets[name], number)
            except ProcessLookupError:
                pass  # the job has ended
        return chosen

    def end(self):
        """Waits for the end of the process. Returns the exit status as a shell shows it."""
        status = self.process.wait(timeout=END_SECONDS_MAX)
        return status if status >= 0 else 128 - status

    def summary(self):
        return json.loads(self.out.read_text().splitlines()[-1])


def fault_of_stop(life, status, number, epochs):
    """Returns what is wrong with this end, or an empty text."""
    events = life.events()
    if status == 0:  # the job was complete when the signal arrived
        accounts = len(life.summary()["accounts"])
        return "" if accounts == epochs else f"exit status 0 after {accounts} of {epochs} epochs"
    if status != 128 + number:
        return f"exit status {status}, not {128 + number}"
    if "stop_requested" not in events:
        return "the job trained, but recorded no stop" if "lease" in events else ""
    at = events.index("stop_requested")
    if "view" in events[:at] and "published" not in events[at:]:
        return "no checkpoint was published after the stop"
    return ""


class Campaign:
    """Runs that are stopped at random moments, and the faults that were found."""

    def __init__(self, lab, seed):
        self.lab, self.rng = lab, random.Random(seed)
        self.counter = None
        self.seconds = {}    # duration of an undisturbed run, by form
        self.moments = {form: 0 for form in FORMS}
        self.faults = []
        self.early = self.finished = 0  # stops before the first view; signals to a completed job
        self.slowest = 0.0

    def calibrate(self):
        """Makes a job that lasts long enough on this machine in both forms, and measures both."""
        records, epochs = 6000, 6
        for attempt in range(6):
            self.counter = Counter(self.lab.new_folder(f"job-{attempt}"), records, epochs, batch=50, shard=500)
            for form in FORMS:
                with Life(self.lab, self.counter, self.counter.folder / f"plain-{len(self.seconds)}-{attempt}", form) as life:
                    check(life.end() == 0, f"an undisturbed run failed: {life.log.read_text()[-300:]}")
                    self.seconds[form] = time.monotonic() - life.started
            if min(self.seconds.values()) >= PLAIN_SECONDS or epochs >= Counter.EPOCHS_MAX:
                return
            epochs = min(Counter.EPOCHS_MAX, int(epochs * max(1.5, PLAIN_SECONDS / min(self.seconds.values()))))

    def run(self, number, form, stops):
        """Stops one run at most that often, trains it to its end, and checks the result."""
        run_dir = self.counter.folder / f"run-{number}"
        for _ in range(stops):
            if not self.stop_once(run_dir, form):
                break
        with Life(self.lab, self.counter, run_dir, form) as life:
            status = life.end()
            if status != 0:
                return self.fault(run_dir, f"the resumed run ended with {status}: {life.log.read_text()[-300:]}")
            balanced(life.summary(), self.counter.records, self.counter.epochs)
        wrong = self.counter.wrong(self.lab.bin, run_dir)
        return self.fault(run_dir, wrong) if wrong else None

    def stop_once(self, run_dir, form):
        """Starts or resumes the run and stops it at a random moment.

        Returns False if nothing is left to resume.
        """
        number = self.rng.choice([signal.SIGTERM, signal.SIGINT])
        what = self.rng.choice(["group", "single", "single", "subset"])
        moment = self.rng.uniform(0, 1.05 * self.seconds[form])
        with Life(self.lab, self.counter, run_dir, form) as life:
            if not life.wait_until(moment):
                check(life.end() == 0, f"the run failed before its signal: {life.log.read_text()[-300:]}")
                return False
            names = life.send(self.rng, what, number)
            sent = time.monotonic()
            try:
                status = life.end()
            except subprocess.TimeoutExpired:
                self.fault(run_dir, f"{number.name} to {', '.join(names)} after {moment:.2f} s: still runs {END_SECONDS_MAX} s later")
                return False
            self.slowest = max(self.slowest, time.monotonic() - sent)
            self.moments[form] += 1
            why = fault_of_stop(life, status, number, self.counter.epochs)
            if why:
                self.fault(run_dir, f"{number.name} to {', '.join(names)} after {moment:.2f} s, {form}: {why}; {life.log.read_text()[-300:].strip()}")
            self.finished += status == 0
            self.early += status != 0 and "view" not in life.events()
            return status != 0 and not why

    def fault(self, run_dir, text):
        self.faults.append(f"{run_dir.name}: {text}")


def stop_at_random(lab):
    """Stops runs of both forms until the wanted number of signals has been sent.

    Returns figures for a report.
    """
    moments, seed = lab.moments or lab.pick(10, 200), lab.seed
    campaign = Campaign(lab, seed)
    campaign.calibrate()
    number = 0
    while sum(campaign.moments.values()) < moments:
        form = min(campaign.moments, key=campaign.moments.get)
        left = moments - sum(campaign.moments.values())
        campaign.run(number, form, min(STOPS_PER_RUN, left))
        number += 1
    check(not campaign.faults, f"seed {seed}: {len(campaign.faults)} of {moments} stops went wrong: " + " | ".join(campaign.faults[:5]))
    return {"seed": seed, "moments": sum(campaign.moments.values()), "moments_by_form": campaign.moments, "runs": number,
            "before_the_first_view": campaign.early, "job_had_completed": campaign.finished, "seconds_to_end_max": round(campaign.slowest, 2),
            "weights": f"all {campaign.counter.epochs}", "records": campaign.counter.records}


# ---- processes started by hand ---------------------------------------------------------------------------------------------

def stop_by_hand(lab):
    """Sends SIGTERM to sets of processes without which the job can't continue.

    The chief saves and ends with 143.
    """
    sets = {"all ps": ["ps"], "all workers": ["worker"], "chief": ["chief"], "all": ["worker", "ps", "chief"]}
    counter = lab.counter(lab.pick(3, 6), shard=200)
    folder = counter.folder
    for name, roles in sets.items():
        with Cluster(lab.bin, folder, counter.job, workers=2, restarts=False, flags=["--set", "cluster.workers_wait=1s"]) as cluster:
            cluster.events.read()  # skips the events of earlier runs
            cluster.wait_trained(3)
            published = cluster.events.count("published")
            for role in roles:
                for member in [m for m in cluster.members.values() if m.role == role]:
                    member.leaving = True
                    member.process.send_signal(signal.SIGTERM)
            status = cluster.wait_chief(END_SECONDS_MAX, f"SIGTERM to {name}")
            check(status == 143, f"SIGTERM to {name}: the chief ended with {status}; {cluster.last_words()}")
            check(cluster.events.count("published") > published, f"SIGTERM to {name}: no checkpoint was published")
    with Cluster(lab.bin, folder, counter.job, workers=2) as cluster:
        balanced(cluster.finish(120), counter.records, counter.epochs)
    wrong = counter.wrong(lab.bin, folder / "run")
    check(not wrong, wrong)
    return {"sets": ", ".join(sets), "weights": f"all {counter.epochs}"}
