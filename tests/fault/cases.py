#!/usr/bin/env python3
"""Faults on real processes: nothing is lost and nothing doubled.

  tests/fault/cases.py --list
  tests/fault/cases.py kill-counter            one of them, in its short form
  tests/fault/cases.py --long                  all, in their long form (or DP_FAULT_LONG=1)
  tests/fault/cases.py --json kill-counter     what was measured, for programs

Each trains the counter model, whose weights tell exactly what was applied how often, or a real job beside a fault-free
run of it. Exit status 1 where something does not hold, 77 where the machine can't show it.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import hostile  # noqa: E402
from cluster import Cluster, Counter, Failed, Scratch, balanced, check, free_port, stop  # noqa: E402
from lab import Lab, LocalTrain, Skipped, SmallDisk, prove, resident_mb  # noqa: E402
from proxied import Proxy  # noqa: E402
from stops import stop_at_random, stop_by_hand  # noqa: E402

CHECKOUT = Path(__file__).resolve().parent.parent.parent
CASES = {}
SKIPPED = 77


def case(name, what):
    def register(function):
        CASES[name] = (what, function)
        return function
    return register


# ---- kill -9 (R1, R5) ------------------------------------------------------------------------------------------------------

TURNS = [("worker", 0), ("ps", 0), ("chief", 0), ("worker", 1), ("ps", 1), ("chief", 0), ("worker", 2)]
KILL_EVERY_S = 2.0


def kill_in_turn(cluster, kills, every_s=KILL_EVERY_S):
    """One role after another. When the last was killed."""
    at = None
    for number in range(kills):
        cluster.pause(every_s)
        if cluster.finished:
            break
        cluster.kill(*TURNS[number % len(TURNS)])
        at = time.monotonic()
    return at


def rate_between(ends, begin, end):
    return sum(1 for at in ends if begin <= at < end) / (end - begin)


def seconds_until_rate(ends, begin, rate, window_s=1.0):
    """From `begin` until shards end at that rate over a window that lies after it; None if they never do."""
    starts = [begin] + [at for at in ends if at >= begin]
    for start in starts:
        if start + window_s <= ends[-1] and rate_between(ends, start, start + window_s) >= rate:
            return start + window_s - begin
    return None


@case("kill-counter", "kill -9 of worker, ps, chief in turn every 2 s: every weight is exact")
def kill_counter(lab):
    seconds = lab.seconds or lab.pick(6, 60)
    kills = int(seconds / KILL_EVERY_S)
    counter = lab.counter(seconds * 1.8 + 15 if seconds > 20 else seconds * 1.2 + 4)
    with Cluster(lab.bin, counter.folder, counter.job) as cluster:
        cluster.wait_trained(5)
        undisturbed_from = time.monotonic()
        cluster.pause(1.5 if seconds <= 20 else 5)
        undisturbed = rate_between(cluster.events.times("ended"), undisturbed_from, time.monotonic())
        last = kill_in_turn(cluster, kills)
        check(cluster.kills == kills, f"the job had ended after {cluster.kills} of {kills} kills")
        figures = prove(lab, cluster, counter)
        ends = cluster.events.times("ended")
    back = seconds_until_rate(ends, last, 0.9 * undisturbed)
    after = rate_between(ends, last + 5, ends[-1]) if ends[-1] > last + 6 else None
    return {**figures, "shards_per_second": undisturbed, "shards_per_second_after": after, "seconds_to_90_percent": back, "views": cluster.events.count("view")}


def enough_epochs(lab, job, seconds):
    """Flags with which the job trains for a little longer than that, by trials: as many epochs as it says, in batches as small as it takes. (Many times
    as many would train it far past its best, where AUC falls from epoch to epoch, and one run is no measure for another.)"""
    def of(batch, epochs):
        return ["--set", f"train.batch_size={batch}", "--set", f"train.epochs={epochs}"]

    def epoch_s(batch):
        with Cluster(lab.bin, lab.new_folder(f"trial-{batch}"), job, flags=of(batch, 1)) as cluster:
            return cluster.finish(300)["train_seconds"]
    wanted_s = 1.2 * seconds
    said = tomllib.loads(job.read_text())["train"]["epochs"]
    batch = max(1, int(32 * epoch_s(32) * said / wanted_s))
    return of(batch, max(2, int(wanted_s / epoch_s(batch))))


@case("kill-auc", "the same on a real job: AUC as without faults")
def kill_auc(lab):
    seconds = lab.seconds or lab.pick(4, 60)

    def train(name, job, flags, kills=0, every_s=0.0):
        with Cluster(lab.bin, lab.new_folder(name), job, flags=flags) as cluster:
            cluster.wait_trained(1)
            begun = time.monotonic()
            if kills:
                kill_in_turn(cluster, kills, every_s)
                check(cluster.kills >= 2, "the job had ended before two kills")
            summary = cluster.finish(300)
            took = time.monotonic() - begun
        records = summary["accounts"][0]["read"]
        balanced(summary, records, len(summary["accounts"]))
        outputs = next(iter(summary["evaluations"][-1]["outputs"].values()))
        return outputs["auc"], took, {"kills": cluster.kills, "records": records, "epochs": len(summary["accounts"])}

    rows = lab.pick(60_000, 400_000)
    job = lab.job or lab.clicks(rows)
    flags = enough_epochs(lab, job, seconds) if lab.job else []
    plain, took, _ = train(f"plain-{rows}", job, flags)
    while not lab.job and took < 3 and rows < 4_000_000:  # else it ends before it was killed twice; more epochs would train it too far
        rows *= 2
        job = lab.clicks(rows)
        plain, took, _ = train(f"plain-{rows}", job, flags)
    # Made clicks: early, as the machine may be faster now than in the run before.
    share = 0.9 if lab.job else 0.4
    every_s = max(0.3, min(KILL_EVERY_S, share * took * KILL_EVERY_S / seconds))
    killed, took_killed, figures = train("killed", job, flags, int(seconds / KILL_EVERY_S), every_s)
    check(abs(plain - killed) <= 0.002, f"AUC {killed:.4f} with kills, {plain:.4f} without")
    return {**figures, "auc_plain": plain, "auc_killed": killed, "seconds_plain": took, "seconds_killed": took_killed}


@case("kill-local", "local processes of `downpour train` are started again by it")
def kill_local(lab):
    kills = lab.pick(3, 12)
    with LocalTrain(lab, lab.counter(2.5 * kills + 2), restarts=kills) as train:
        done = 0
        while done < kills and train.process.poll() is None:
            time.sleep(1.5)
            victims = list(train.of(("downpour-ps", "downpour-worker")[done % 2]))
            os.kill(victims[done // 2 % len(victims)], signal.SIGKILL)
            done += 1
            while len(train.of("downpour-")) < 5 and train.process.poll() is None:
                time.sleep(0.02)
        check(done == kills, f"the job had ended after {done} of {kills} kills")
        figures = train.prove()
        check(figures["restarts"] == kills, f"{figures['restarts']} restarts after {kills} kills")
        return {"kills": kills, **figures}


@case("kill-input", "input processes are killed and stopped, and all at once: every weight is exact")
def kill_input(lab):
    kills = lab.pick(4, 20)
    counter = lab.counter(1.0 * kills + 14)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2, inputs=2) as cluster:
        cluster.wait_trained(5)
        for number in range(kills):
            cluster.pause(1.0)
            cluster.kill("input", number % 2)
        cluster.pause(1.0)
        cluster.signal("input", 0, signal.SIGSTOP)  # its readings go on elsewhere, it is silent
        cluster.pause(5.0)
        cluster.signal("input", 0, signal.SIGCONT)
        cluster.restarts = False  # none is left: workers read for themselves
        cluster.kill("input", 0)
        cluster.kill("input", 1)
        cluster.wait_trained(5)
        figures = prove(lab, cluster, counter)
        check(figures["workers_lost"] == 0, "a worker was lost, though none was killed")
        return figures


@case("again-and-again", "a local worker that dies again and again is started again while the others make progress")
def again_and_again(lab):
    limit, kills = 2, 5
    with LocalTrain(lab, lab.counter(8), restarts=limit) as train:
        for done in range(kills):
            deadline = time.monotonic() + 30
            while not (found := [pid for pid, line in train.of("downpour-worker").items() if "--index 1" in line]):
                check(time.monotonic() < deadline and train.process.poll() is None, f"not started again after {done} kills: {train.log()[-300:]}")
                time.sleep(0.05)
            time.sleep(0.5)  # the others make progress
            os.kill(found[0], signal.SIGKILL)
        figures = train.prove()
        check(figures["restarts"] == kills, f"{figures['restarts']} restarts after {kills} kills")
        return figures


@case("crash-loop", "a local ps that dies before any progress ends the job after three restarts, with its reason")
def crash_loop(lab):
    with LocalTrain(lab, lab.counter(3), restarts=3, workers=1) as train:
        killed = set()
        deadline = time.monotonic() + 60
        while train.process.poll() is None:
            check(time.monotonic() < deadline, f"still running after {len(killed)} kills: {train.log()[-300:]}")
            for pid in set(train.of("downpour-ps")) - killed:  # no batch is ever applied without both ps
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            time.sleep(0.02)
        check(train.process.returncode == 69, f"ended with {train.process.returncode}: {train.log()[-300:]}")
        check("DP-4004" in train.log(), f"no DP-4004: {train.log()[-300:]}")
        return {"kills": len(killed)}


@case("kill-all", "everything is killed at once, and the same commands go on")
def kill_all(lab):
    counter = lab.counter(lab.pick(3, 10))
    times = lab.pick(1, 4)
    with Cluster(lab.bin, counter.folder, counter.job) as cluster:
        for _ in range(times):
            cluster.wait_trained(15)
            cluster.wait_until(lambda: cluster.events.count("published") or cluster.events.count("checkpoint"), "a checkpoint")
            for role, index in list(cluster.members):
                cluster.kill(role, index)
        return prove(lab, cluster, counter)


@case("chief-down", "the chief stays away: nobody else is started anew")
def chief_down(lab):
    counter = lab.counter(lab.pick(3, 10))
    with Cluster(lab.bin, counter.folder, counter.job, restarts=False) as cluster:
        cluster.wait_trained(10)
        cluster.kill("chief")
        cluster.pause(lab.pick(3, 10))
        cluster.start(cluster.member("chief"))
        figures = prove(lab, cluster, counter)
        starts = {member.name: member.starts for member in cluster.members.values()}
    check(all(n == 1 for name, n in starts.items() if name != "chief"), f"starts: {starts}")
    return figures


STATE_JOB = """partitions = 64
data = {{ source = "keys.svm", format = "libsvm" }}
optimizer = {{ type = "adagrad", learning_rate = 0.01 }}
train = {{ epochs = {epochs}, batch_size = 500, reduction = "sum" }}
[model]
layers = [{{ name = "rows", type = "embedding", inputs = ["features"], dim = 64, pool = "sum" }},
          {{ name = "out", type = "dense", inputs = ["rows"], units = 1 }}]
outputs = [{{ name = "y", input = "out", loss = "logistic", target = "label" }}]
"""
STATE_ROW_BYTES = 8 + 2 * 4 * 64


@case("ps-restart", "one of two ps with much state is killed: it alone comes back to the checkpoint")
def ps_restart(lab):
    megabytes = lab.megabytes or lab.pick(20, 1000)
    rows = 2 * megabytes * 1_000_000 // STATE_ROW_BYTES
    folder = lab.new_folder("state")
    with open(folder / "keys.svm", "w", encoding="ascii") as file:
        for begin in range(0, rows, 100_000):
            file.write("".join(f"{key & 1} {key}:1\n" for key in range(begin + 1, min(rows, begin + 100_000) + 1)))
    epochs = max(3, 1_000_000 // rows)
    (folder / "job.toml").write_text(STATE_JOB.format(epochs=epochs))
    with Cluster(lab.bin, folder, folder / "job.toml") as cluster:
        cluster.wait_until(lambda: cluster.events.count("published"), "a checkpoint of all", 600)
        cluster.wait_trained(3, 120)
        adoptions, views = cluster.events.count("adopt"), cluster.events.count("view")
        cluster.kill("ps", 1)
        begun = time.monotonic()
        cluster.wait_until(lambda: cluster.events.count("view") > views, "the ps has its partitions again", 60)
        serving = time.monotonic() - begun
        taken_in = cluster.events.times("adopt")[adoptions] - begun
        ends = cluster.events.count("ended")
        cluster.wait_until(lambda: cluster.events.count("ended") > ends, "a shard ends", 120)
        shard = time.monotonic() - begun
        adopted = [event["who"] for _, event in cluster.events.seen if event.get("event") == "adopt"][adoptions:]
        summary = cluster.finish(900)
        balanced(summary, rows, epochs)
        check(not cluster.unasked, f"nobody needed to end, but {'; '.join(cluster.unasked)}")
        again = [member.name for member in cluster.members.values() if member.starts > 1]
        images = sum(path.stat().st_size for path in (cluster.run_dir / "checkpoints").glob("*/*") if path.is_file())
        kept = len(list((cluster.run_dir / "checkpoints").glob("manifest-*")))
    check(sorted(set(adopted)) == ["ps 1"], f"rolled back: {adopted}")
    check(again == ["ps 1"], f"started again: {again}")
    return {"rows": rows, "image_mb": images / max(1, kept) / 2e6, "seconds_to_adopt": taken_in, "seconds_to_serve": serving, "seconds_to_shard": shard,
            "restored": sorted(set(adopted)), "started_again": again}


# ---- SIGSTOP with a replacement (R2) ---------------------------------------------------------------------------------------

def replaced_by(cluster, role, index):
    """Stops a member and starts another in its place; when the chief has taken that one in, both may run."""
    member = cluster.member(role, index)
    event = "adopt" if role == "ps" else "hello"
    before = cluster.events.count(event, who=member.name)
    stop(member.process)
    cluster.extra.append(member.process)
    cluster.start(member)
    cluster.wait_until(lambda: cluster.events.count(event, who=member.name) > before, f"another {member.name} is taken in")


@case("stopped", "a worker and a ps hang, are replaced, and wake up")
def stopped(lab):
    counter = lab.counter(lab.pick(8, 40))
    with Cluster(lab.bin, counter.folder, counter.job) as cluster:
        for _ in range(lab.pick(1, 4)):
            for role, index in (("worker", 1), ("ps", 1)):
                cluster.wait_trained(5)
                old = cluster.member(role, index).process
                replaced_by(cluster, role, index)
                cluster.wait_trained(5)
                old.send_signal(signal.SIGCONT)
                cluster.pause(0.3)
        # The chief only hangs: another one at its address can't be.
        cluster.wait_trained(1)
        cluster.signal("chief", 0, signal.SIGSTOP)
        time.sleep(lab.pick(1, 10))
        cluster.signal("chief", 0, signal.SIGCONT)
        return prove(lab, cluster, counter)


@case("stopped-chief", "a chief hangs, another takes the run over, and the first wakes up")
def stopped_chief(lab):
    counter = lab.counter(lab.pick(3, 10))
    near = free_port()
    plain = Cluster(lab.bin, counter.folder, counter.job, chief_at=f"127.0.0.1:{near}")
    with Proxy(near, plain.chief_port, counter.folder) as proxy, plain as cluster:
        cluster.wait_trained(10)
        old = cluster.member("chief").process
        stop(old)
        cluster.extra.append(old)
        first_summary = counter.folder / "summary"
        first_summary.rename(counter.folder / "summary-of-the-first")
        cluster.chief_port = free_port()
        cluster.flags.append("--takeover")
        cluster.start(cluster.member("chief"))
        proxy.tell(f"to 127.0.0.1:{cluster.chief_port}")
        proxy.tell("reset")
        starts = cluster.events.count("start")
        cluster.wait_until(lambda: cluster.events.count("start") >= max(2, starts), "the second chief has begun")
        cluster.pause(1)
        old.send_signal(signal.SIGCONT)
        figures = prove(lab, cluster, counter)
        check(old.wait(timeout=20) != 0, "the first chief ended as if the job were its own")
    return figures


# ---- ps that join and leave (R6) ---------------------------------------------------------------------------------------------

@case("reshard", "3 -> 5 -> 3 ps while training, with kills in the middle of moves")
def reshard(lab):
    counter = lab.counter(lab.pick(8, 40))
    with Cluster(lab.bin, counter.folder, counter.job, ps=3) as cluster:
        moved = lambda: cluster.events.total("moved", "partitions")  # noqa: E731
        # Each time another side of a move: the source, the target, the chief.
        for victim in lab.pick([("ps", 4)], [("ps", 0), ("ps", 4), ("chief", 0)]):
            cluster.wait_trained(3)
            before = moved()
            cluster.join("ps", 3)
            cluster.join("ps", 4)
            cluster.wait_until(lambda: moved() > before + 3, "partitions move to the ps that joined")  # noqa: B023
            cluster.kill(*victim)
            cluster.wait_until(lambda: moved() > before + 12, "partitions go on moving after the kill")  # noqa: B023
            cluster.leave("ps", 3)
            cluster.leave("ps", 4)
            gone = lambda: ("ps", 3) not in cluster.members and ("ps", 4) not in cluster.members  # noqa: E731
            cluster.wait_until(gone, "the two that joined have left")
        figures = prove(lab, cluster, counter)
        pauses = [event["pause_us"] / 1000 for _, event in cluster.events.seen if event.get("event") == "moved"]
        check(moved() >= 20, f"only {moved()} partitions have moved")
    return {**figures, "moved": moved(), "pause_ms_max": max(pauses)}


def open_move(cluster):
    """The move that has begun and neither ended nor been called off; None where there is none."""
    for _, event in reversed(cluster.events.seen):
        if event.get("event") in ("moved", "move_cancelled", "start"):
            return None
        if event.get("event") == "move":
            return event
    return None


@case("move-chief", "the chief is killed in the middle of a move: the next one decides whose the partitions are")
def move_chief(lab):
    counter = lab.counter(lab.pick(10, 40))
    with Cluster(lab.bin, counter.folder, counter.job) as cluster:
        moved = lambda: cluster.events.total("moved", "partitions")  # noqa: E731
        sides = ["source", "target"] * lab.pick(1, 3)
        for side in sides:
            cluster.wait_trained(3)
            before, starts = moved(), cluster.events.count("start")
            stuck = cluster.signal("ps", 0, signal.SIGSTOP).process  # does not even hear that it is to freeze
            cluster.join("ps", 2)
            wanted = lambda: (open_move(cluster) or {}).get("from") == "ps 0"  # noqa: E731
            cluster.wait_until(wanted, "a move waits for its source", 8)
            if side == "target":  # is sent images, and does not take them
                source, stuck = stuck, cluster.signal("ps", 2, signal.SIGSTOP).process
                source.send_signal(signal.SIGCONT)
            cluster.pause(0.2)
            last = [event.get("event") for _, event in cluster.events.seen[-5:]]
            check(wanted(), f"the move did not wait for its {side}: the last events are {', '.join(map(str, last))}")
            cluster.kill("chief")
            stuck.send_signal(signal.SIGCONT)
            cluster.wait_until(lambda: cluster.events.count("start") > starts, "another chief")  # noqa: B023
            cluster.wait_until(lambda: moved() >= before + 8, "partitions move on")  # noqa: B023
            cluster.leave("ps", 2)
            cluster.wait_until(lambda: ("ps", 2) not in cluster.members, "the third ps has left")
        figures = prove(lab, cluster, counter)
        left = [path.name for path in (cluster.run_dir / "moves").glob("*")]
        check(not left, f"images of moves were left behind: {left}")
    return {**figures, "moved": moved(), "cut": len(sides)}


# ---- stop signals ------------------------------------------------------------------------------------------------------------

@case("stops", "SIGTERM and SIGINT to the group, single processes and subsets at random moments: a checkpoint each time")
def stops(lab):
    return stop_at_random(lab, lab.moments or lab.pick(10, 200), lab.seed)


@case("stops-by-hand", "SIGTERM to all ps, all workers, the chief, or all: the chief saves and ends with 143")
def stops_by_hand(lab):
    return stop_by_hand(lab)


# ---- the network (a proxy before the chief and before a ps) ------------------------------------------------------------------

NETWORK = [("hold up", 0.8), ("hold down", 0.8), ("delay 100", 0.8), ("half", 0.2), ("trickle 20000", 0.8), ("reset", 0.2), ("hold both", 1.0)]


@case("network", "one-way loss, delay, half-open and slow connections, resets")
def network(lab):
    counter = lab.counter(lab.pick(4, 25))
    near, ps_near = free_port(), free_port("127.0.0.2")
    plain = Cluster(lab.bin, counter.folder, counter.job, chief_at=f"127.0.0.1:{near}", ps_hosts={0: (ps_near, "127.0.0.2")})
    with Proxy(near, plain.chief_port, counter.folder) as to_chief, Proxy(ps_near, ps_near, counter.folder, "127.0.0.2") as to_ps, plain as cluster:
        done = 0
        for _ in range(lab.pick(1, 4)):
            for proxy in (to_ps, to_chief):
                for command, seconds in NETWORK:
                    if cluster.finished:
                        break
                    if command == "half" and not lab.long:
                        continue  # is found out after 10 to 20 s of silence
                    cluster.pause(0.1)
                    proxy.tell(command)
                    cluster.pause(seconds * lab.pick(0.5, 1))
                    proxy.tell("pass")
                    done += 1
        check(done >= len(NETWORK), f"the job had ended after {done} faults")
        return prove(lab, cluster, counter, {"faults": done})


@case("hostile", "random bytes, half greetings, huge claims and idle connections beside a training job (R7)")
def hostile_peers(lab):
    counter = lab.counter(lab.pick(4, 30))
    # Without keys, so that what is sent reaches the parsers.
    with Cluster(lab.bin, counter.folder, counter.job, insecure=True) as cluster:
        cluster.wait_trained(5)
        before = cluster.events.times("ended")
        attack = hostile.Attack(ports_of(cluster), idle=lab.pick(300, 3000))
        limit = time.monotonic() + lab.pick(3, 25)
        while time.monotonic() < limit and not cluster.finished:
            attack.turn()
            cluster.turn()
        attack.close()
        trained = len(cluster.events.times("ended")) - len(before)
        check(trained > 0, "nothing was trained beside hostile peers")
        peak = max(resident_mb(cluster.member(role, index).process.pid) for role, index in PORT_OWNERS)
        check(peak < 512, f"a process grew to {peak:.0f} MB")
        return prove(lab, cluster, counter, {"attacks": attack.count, "rss_mb_max": peak})


PORT_OWNERS = (("chief", 0), ("ps", 0), ("ps", 1))


def ports_of(cluster):
    """Of the chief and of every ps."""
    hosts = [event["endpoint"].partition("?")[0].rsplit(":", 1)[1] for _, event in cluster.events.seen if event.get("event") == "hello" and event["endpoint"]]
    return [cluster.chief_port, *map(int, hosts)]


@case("descriptors", "3,000 idle connections where 1,024 descriptors are allowed: checkpoints are still written")
def descriptors(lab):
    counter = lab.counter(lab.pick(6, 20))
    flags = ["--set", 'train.checkpoint={ every = "500ms" }']
    with Cluster(lab.bin, counter.folder, counter.job, flags=flags, prefix=("prlimit", "--nofile=1024:1024")) as cluster:
        cluster.wait_trained(5)
        attack = hostile.Attack(ports_of(cluster), idle=3000)
        check(attack.count["idle"] == 3000, f"only {attack.count['idle']} connections were made")
        used = {f"{role} {index}": len(list(Path(f"/proc/{cluster.member(role, index).process.pid}/fd").iterdir())) for role, index in PORT_OWNERS}
        published = cluster.events.count("published")
        cluster.wait_until(lambda: cluster.events.count("published") > published + 1, "two checkpoints beside the connections")
        failed = [line for line in cluster.log("chief").read_text().splitlines() if "checkpoint" in line and "fail" in line.lower()]
        check(not failed, f"a checkpoint failed: {failed[:1]}")
        attack.close()
        return prove(lab, cluster, counter, {"idle": 3000, "descriptors_used": used, "published": cluster.events.count("published")})


def log_bytes(cluster):
    return sum(path.stat().st_size for path in (*cluster.folder.glob("*.log"), cluster.run_dir / "events.jsonl"))


@case("hostile-rate", "two equal jobs at once, one under attack at all ports: its rate, memory and logs beside the other's")
def hostile_rate(lab):
    seconds = lab.seconds or lab.pick(6, 60)
    counters = [lab.counter(seconds * 0.9 + 4)]
    folder = lab.new_folder("beside")
    counters.append(Counter(folder, counters[0].records, counters[0].epochs))
    attacked, plain = (Cluster(lab.bin, one.folder, one.job, workers=1) for one in counters)
    with attacked, plain:
        both = (attacked, plain)
        for cluster in both:
            cluster.wait_trained(5)
        ports = ports_of(attacked)
        before_bytes = [log_bytes(cluster) for cluster in both]
        trained = [cluster.events.count("ended") for cluster in both]
        begun = time.monotonic()
        command = [sys.executable, hostile.__file__, int(seconds), 300, *ports]
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True) as attack:
            while attack.poll() is None and not any(cluster.finished for cluster in both):
                for cluster in both:
                    cluster.turn()
            took = time.monotonic() - begun
            if attack.poll() is None:
                attack.kill()
            said = attack.communicate()[0]
        check(took >= 0.6 * seconds, f"a job ended {took:.0f} s after the attack began, which was to last {seconds:.0f} s")
        shards = [cluster.events.count("ended") - count for cluster, count in zip(both, trained)]
        peaks = [[resident_mb(cluster.member(*owner).process.pid) for owner in PORT_OWNERS] for cluster in both]
        logged = [log_bytes(cluster) - count for cluster, count in zip(both, before_bytes)]
        figures = {"seconds_attacked": took, "attacks": json.loads(said) if said else {}, "rate_share": shards[0] / max(1, shards[1]),
                   "rss_mb_more": max(a - b for a, b in zip(*peaks)), "log_mb_per_minute": (logged[0] - logged[1]) / 1e6 / took * 60}
        figures |= prove(lab, attacked, counters[0], timeout_s=4 * seconds + 180)
        prove(lab, plain, counters[1], timeout_s=4 * seconds + 180)
        return figures


# ---- full disks (R4) --------------------------------------------------------------------------------------------------------

@case("disk-full", "a full disk: the training goes on, and so do checkpoints when there is room again")
def disk_full(lab):
    counter = lab.counter(lab.pick(4, 12))
    with SmallDisk(counter.folder / "disk", 64) as disk:
        plain = Cluster(lab.bin, counter.folder, counter.job, flags=["--set", f"run_dir={disk.path / 'run'}"])
        plain.run_dir = disk.path / "run"
        plain.events._path = plain.run_dir / "events.jsonl"
        with plain as cluster:
            log = lambda: cluster.log("chief").read_text()  # noqa: E731
            cluster.wait_trained(10)
            disk.fill()
            cluster.wait_until(lambda: "checkpoint" in log() and "No space left" in log(), "a checkpoint that fails is told")
            cluster.pause(0.5)
            check(not cluster.finished, f"the job ended because the disk was full: {cluster.last_words()}")
            disk.free()
            figures = prove(lab, cluster, counter, {"warnings": log().count("No space left")})
    return figures


# ---- a chief that comes back to other data, to a damaged checkpoint, to a full disk ------------------------------------------

def refused(cluster, counter, what):
    """The chief is started on changed data and ends with 78, and its error names the file; ps and workers are left alone."""
    cluster.events.read()
    shards, leases = cluster.events.count("ended"), cluster.events.count("lease")
    said = len(cluster.log("chief").read_bytes())
    chief = cluster.member("chief")
    cluster.start(chief)
    try:
        status = chief.process.wait(timeout=60)
    except subprocess.TimeoutExpired:
        raise Failed(f"the chief runs on changed data ({what})") from None
    words = cluster.log("chief").read_bytes()[said:].decode(errors="replace")
    check(status == 78, f"on changed data ({what}) the chief ended with {status}, not 78: {words[-300:]}")
    check("training data have changed" in words, f"the error does not say what has changed: {words[-300:]}")
    cluster.events.read()
    check(cluster.events.count("lease") == leases, f"shards were leased over changed data ({what})")
    check(cluster.events.count("ended") == shards, f"shards were trained over changed data ({what})")
    others = [m.name for m in cluster.members.values() if m.role != "chief" and m.process.poll() is not None]
    check(not others, f"ended with the refused chief ({what}): {', '.join(others)}")
    return words


def changed_data_once(lab, name, records, epochs_before):
    """Kills the chief before the first checkpoint of an epoch, changes the data, and restores them."""
    counter = Counter(lab.new_folder(name), records, epochs_before + 2)
    if epochs_before:  # all of them are sealed, and the next ones are wanted now
        with Cluster(lab.bin, counter.folder, counter.job, workers=2, flags=["--set", f"train.epochs={epochs_before}"]) as cluster:
            cluster.finish(120)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2, restarts=False) as cluster:
        cluster.events.read()
        published = cluster.events.count("published")
        cluster.wait_trained(5)
        cluster.kill("chief")
        check(cluster.events.count("published") == published, "a checkpoint was published before the chief was killed")
        good = counter.data.read_text()
        counter.data.write_text(good.replace(" 1", " 2", 1))  # as many bytes
        words = refused(cluster, counter, name)
        counter.data.write_text(good)
        cluster.start(cluster.member("chief"))
        figures = prove(lab, cluster, counter)
    return {**figures, "names_the_file": str(counter.data) in words}


@case("changed-data", "the chief is killed and its data file replaced: refused, and nothing is lost once the file is back")
def changed_data(lab):
    trial = lab.counter(lab.pick(5, 12))
    records = trial.records * trial.epochs // 2
    first = changed_data_once(lab, "first-epoch", records, 0)
    check(first["names_the_file"], "the error does not name the changed file")
    later = changed_data_once(lab, "later-epoch", records, 1)
    return {"records": first["records"], "weights": first["weights"], "refused": 2, "weights_later": later["weights"]}


def flip_bit(path):
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(size // 2)
        byte = file.read(1)[0]
        file.seek(size // 2)
        file.write(bytes([byte ^ 1]))


@case("damaged", "a ps hangs while a damaged checkpoint takes everything back an epoch, and wakes up: every weight is exact")
def damaged(lab):
    counter = lab.counter(lab.pick(20, 40), shard=5000)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2) as cluster:
        cluster.wait_until(lambda: cluster.events.count("published") >= 3, "three checkpoints")
        stuck = cluster.signal("ps", 1, signal.SIGSTOP).process
        cluster.wait_until(lambda: cluster.events.count("ps_lost", who="ps 1"), "the ps that hangs is lost", 30)
        newest = max((cluster.run_dir / "checkpoints").glob("manifest-*"), key=lambda path: [int(n) for n in path.stem.split("-")[1:]])
        folder = newest.parent / newest.stem.removeprefix("manifest-")
        flip_bit(next(folder.glob("ps-0-*.ckpt")))
        cluster.kill("ps", 0)
        cluster.wait_until(lambda: cluster.events.count("damaged"), "the damage is found", 30)
        stuck.send_signal(signal.SIGCONT)
        figures = prove(lab, cluster, counter)
        sealed = [event["sealed_epochs"] for _, event in cluster.events.seen if event.get("event") == "published"]
    return {**figures, "damaged": 1, "went_back_epochs": max(a - b for a, b in zip(sealed, sealed[1:]))}


@case("chief-full-disk", "the chief is killed and started again on a full disk: training goes on, and so do checkpoints when there is room")
def chief_full_disk(lab):
    trial = lab.counter(lab.pick(12, 30))
    counter = Counter(lab.new_folder("long-epochs"), trial.records * trial.epochs // 4, 4)  # eight that no checkpoint holds would end the job
    with SmallDisk(counter.folder / "disk", 64) as disk:
        plain = Cluster(lab.bin, counter.folder, counter.job, flags=["--set", f"run_dir={disk.path / 'run'}"])
        plain.run_dir = disk.path / "run"
        plain.events._path = plain.run_dir / "events.jsonl"
        with plain as cluster:
            cluster.wait_trained(10)
            disk.fill()
            cluster.kill("chief")
            cluster.pause(lab.pick(3, 6))
            check(not cluster.finished, f"the chief did not start on a full disk: {cluster.last_words()}")
            disk.free()
            shards = cluster.events.count("ended")
            figures = prove(lab, cluster, counter)
            check(cluster.events.count("ended") > shards, "no event was recorded after there was room again")
            said = cluster.log("chief").read_text().count("could not be written for people to read")
    return {**figures, "warnings": said}


# ---- running them -------------------------------------------------------------------------------------------------------------

def run_case(name, asked):
    with Scratch(keep=asked.keep) as folder:
        lab = Lab(folder, asked)
        begun = time.monotonic()
        figures, state, why = {}, "ok", ""
        try:
            figures = CASES[name][1](lab)
        except (Failed, subprocess.TimeoutExpired) as error:
            state, why = "FAIL", str(error) + (f" (kept: {folder})" if asked.keep else "")
            if asked.keep:
                raise SystemExit(f"{name}: FAIL: {why}") from None
        except Skipped as error:
            state, why = "skipped", str(error)
        seconds = time.monotonic() - begun
        if asked.json:
            print(json.dumps({"case": name, "state": state, "why": why, "seconds": round(seconds, 2), **figures}), flush=True)
        else:
            print(f"{name:<14} {state:<8} {seconds:6.1f} s  {why or ', '.join(f'{k} {v}' for k, v in figures.items())}", flush=True)
        return state


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--long", action="store_true", help="the long form")
    parser.add_argument("--seconds", type=float, help="how long to kill")
    parser.add_argument("--job", type=Path, help="kill-auc: this job instead of made clicks")
    parser.add_argument("--moments", type=int, help="stops: how many signals")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="stops: of the random moments")
    parser.add_argument("--megabytes", type=int, help="ps-restart: state of each ps")
    parser.add_argument("--bin", default=CHECKOUT / "build/release/bin", help="folder of the programs")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a case that fails")
    asked = parser.parse_args()
    if asked.list:
        for name, (what, _) in CASES.items():
            print(f"{name:<14} {what}")
        return 0
    unknown = [name for name in asked.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; there are {', '.join(CASES)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    states = [run_case(name, asked) for name in asked.cases or CASES]
    if "FAIL" in states:
        return 1
    return SKIPPED if set(states) == {"skipped"} else 0


if __name__ == "__main__":
    sys.exit(main())
