"""Cases that kill processes started by hand with SIGKILL."""
import signal
import time
import tomllib

from cluster import Cluster, balanced, check
from lab import prove

TURNS = [("worker", 0), ("ps", 0), ("chief", 0), ("worker", 1), ("ps", 1), ("chief", 0), ("worker", 2)]
KILL_EVERY_S = 2.0


def kill_in_turn(cluster, kills, every_s=KILL_EVERY_S):
    """Kills one process after another until `kills` are done or the job ends.

    Returns the time of the last kill.
    """
    at = None
    for number in range(kills):
        cluster.pause(every_s)
        victim = TURNS[number % len(TURNS)]
        if cluster.finished or cluster.member(*victim).process.poll() is not None:  # the last worker may end before the chief
            break
        cluster.kill(*victim)
        at = time.monotonic()
    return at


def rate_between(ends, begin, end):
    return sum(1 for at in ends if begin <= at < end) / (end - begin)


def seconds_until_rate(ends, begin, rate, window_s=1.0):
    """Returns the seconds from `begin` to the end of the first window with that rate, or None.

    The rate is the number of shards that end per second.
    """
    starts = [begin] + [at for at in ends if at >= begin]
    for start in starts:
        if start + window_s <= ends[-1] and rate_between(ends, start, start + window_s) >= rate:
            return start + window_s - begin
    return None


def kill_counter(lab):
    seconds = lab.seconds or lab.pick(6, 60)
    kills = int(seconds / KILL_EVERY_S)
    counter = lab.counter(seconds * 1.8 + (15 if seconds > 20 else 6))  # about twice as long as the kills take
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
    """Returns flags with which the job trains for about 1.2 times that many seconds.

    Measures trial runs. The batches get smaller and the number of epochs stays about the same. With
    many more epochs the job would overfit: AUC then falls from epoch to epoch, and two runs can't
    be compared.
    """
    def of(batch, epochs):
        return ["--set", f"train.batch_size={batch}", "--set", f"train.epochs={epochs}"]

    def epoch_s(batch):
        with Cluster(lab.bin, lab.new_folder(f"trial-{batch}"), job, flags=of(batch, 1)) as cluster:
            return cluster.finish(300)["train_seconds"]
    wanted_s = 1.2 * seconds
    said = tomllib.loads(job.read_text())["train"]["epochs"]
    batch = max(1, int(32 * epoch_s(32) * said / wanted_s))
    return of(batch, max(2, int(wanted_s / epoch_s(batch))))


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
    # More rows make room for two kills. More epochs would overfit.
    while not lab.job and took < 3 and rows < 4_000_000:
        rows *= 2
        job = lab.clicks(rows)
        plain, took, _ = train(f"plain-{rows}", job, flags)
    # With made clicks, kill early, because the machine may be faster now than in the plain run.
    share = 0.9 if lab.job else 0.4
    every_s = max(0.3, min(KILL_EVERY_S, share * took * KILL_EVERY_S / seconds))
    killed, took_killed, figures = train("killed", job, flags, int(seconds / KILL_EVERY_S), every_s)
    check(abs(plain - killed) <= 0.002, f"AUC {killed:.4f} with kills, {plain:.4f} without")
    return {**figures, "auc_plain": plain, "auc_killed": killed, "seconds_plain": took, "seconds_killed": took_killed}


def kill_input(lab):
    kills = lab.pick(4, 20)
    counter = lab.counter(1.0 * kills + 14)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2, inputs=2) as cluster:
        cluster.wait_trained(5)
        for number in range(kills):
            cluster.pause(1.0)
            cluster.kill("input", number % 2)
        cluster.pause(1.0)
        cluster.signal("input", 0, signal.SIGSTOP)  # the other one takes over its shards
        cluster.pause(5.0)
        cluster.signal("input", 0, signal.SIGCONT)
        cluster.restarts = False  # no input process is left, so workers read for themselves
        cluster.kill("input", 0)
        cluster.kill("input", 1)
        cluster.wait_trained(5)
        figures = prove(lab, cluster, counter)
        check(figures["workers_lost"] == 0, "a worker was lost, though none was killed")
        return figures


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
        check(not cluster.unasked, f"no process had a reason to end, but {'; '.join(cluster.unasked)}")
        again = [member.name for member in cluster.members.values() if member.starts > 1]
        images = sum(path.stat().st_size for path in (cluster.run_dir / "checkpoints").glob("*/*") if path.is_file())
        kept = len(list((cluster.run_dir / "checkpoints").glob("manifest-*")))
    check(sorted(set(adopted)) == ["ps 1"], f"rolled back: {adopted}")
    check(again == ["ps 1"], f"started again: {again}")
    return {"rows": rows, "image_mb": images / max(1, kept) / 2e6, "seconds_to_adopt": taken_in, "seconds_to_serve": serving, "seconds_to_shard": shard,
            "restored": sorted(set(adopted)), "started_again": again}
