"""Cases with full disks, changed training data, and a damaged checkpoint."""
import os
import signal
import subprocess

from cluster import Cluster, Counter, Events, Failed, check
from lab import SmallDisk, prove


# A job fails when eight complete epochs wait for a checkpoint. With fewer epochs in total, a full
# disk can't end the job before its last checkpoint.
FEW_EPOCHS = 7


def cluster_on(disk, lab, counter):
    """Returns a cluster whose run folder is on the given disk."""
    cluster = Cluster(lab.bin, counter.folder, counter.job, flags=["--set", f"run_dir={disk.path / 'run'}"])
    cluster.run_dir = disk.path / "run"
    cluster.events = Events(cluster.run_dir / "events.jsonl")
    return cluster


def disk_full(lab):
    counter = lab.counter(lab.pick(6, 15), epochs=FEW_EPOCHS)
    with SmallDisk(counter.folder / "disk", 64) as disk:
        with cluster_on(disk, lab, counter) as cluster:
            log = lambda: cluster.log("chief").read_text()  # noqa: E731
            cluster.wait_trained(10)
            disk.fill()
            cluster.wait_until(lambda: "checkpoint" in log() and "No space left" in log(), "the chief reports a failed checkpoint")
            cluster.pause(0.5)
            check(not cluster.finished, f"the job ended while the disk was full: {cluster.last_words()}")
            disk.free()
            figures = prove(lab, cluster, counter, {"warnings": log().count("No space left")})
    return figures


def chief_full_disk(lab):
    counter = lab.counter(lab.pick(12, 30), epochs=FEW_EPOCHS)
    with SmallDisk(counter.folder / "disk", 64) as disk:
        with cluster_on(disk, lab, counter) as cluster:
            cluster.wait_trained(10)
            disk.fill()
            cluster.kill("chief")
            cluster.pause(lab.pick(3, 6))
            check(not cluster.finished, f"the job ended while the disk was full: {cluster.last_words()}")
            disk.free()
            shards = cluster.events.count("ended")
            figures = prove(lab, cluster, counter)
            check(cluster.events.count("ended") > shards, "no shard ended after the disk had room again")
            said = cluster.log("chief").read_text().count("readable copy of the job could not be written")
    return {**figures, "warnings": said}


def refused(cluster, counter, what):
    """Starts the chief on changed data, and checks that it exits with 78.

    Also checks that ps and workers keep running. Returns what the chief logged.
    """
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
    check("training data have changed" in words, f"the error does not say that the data have changed: {words[-300:]}")
    cluster.events.read()
    check(cluster.events.count("lease") == leases, f"shards were leased over changed data ({what})")
    check(cluster.events.count("ended") == shards, f"shards were trained over changed data ({what})")
    others = [m.name for m in cluster.members.values() if m.role != "chief" and m.process.poll() is not None]
    check(not others, f"processes ended with the rejected chief ({what}): {', '.join(others)}")
    return words


def changed_data_once(lab, name, records, epochs_before):
    """Kills the chief before the first checkpoint of an epoch, and starts it on changed data.

    Then restores the data and lets the job end.
    """
    counter = Counter(lab.new_folder(name), records, epochs_before + 2)
    if epochs_before:  # a first job seals these epochs, and the second job trains more
        with Cluster(lab.bin, counter.folder, counter.job, workers=2, flags=["--set", f"train.epochs={epochs_before}"]) as cluster:
            cluster.finish(120)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2, restarts=False) as cluster:
        cluster.events.read()
        published = cluster.events.count("published")
        cluster.wait_trained(5)
        cluster.kill("chief")
        cluster.events.read()
        check(cluster.events.count("published") == published, "a checkpoint was published before the chief was killed")
        good = counter.data.read_text()
        counter.data.write_text(good.replace(" 1", " 2", 1))  # keeps the size of the file
        words = refused(cluster, counter, name)
        counter.data.write_text(good)
        cluster.start(cluster.member("chief"))
        figures = prove(lab, cluster, counter)
    return {**figures, "names_the_file": str(counter.data) in words}


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


def damaged(lab):
    counter = lab.counter(lab.pick(20, 40), shard=5000)
    with Cluster(lab.bin, counter.folder, counter.job, workers=2) as cluster:
        cluster.wait_until(lambda: cluster.events.count("published") >= 3, "three checkpoints")
        stuck = cluster.signal("ps", 1, signal.SIGSTOP).process
        cluster.wait_until(lambda: cluster.events.count("ps_lost", who="ps 1"), "the chief declares the stopped ps lost", 30)
        newest = max((cluster.run_dir / "checkpoints").glob("manifest-*"), key=lambda path: [int(n) for n in path.stem.split("-")[1:]])
        folder = newest.parent / newest.stem.removeprefix("manifest-")
        flip_bit(next(folder.glob("ps-0-*.ckpt")))
        cluster.kill("ps", 0)
        cluster.wait_until(lambda: cluster.events.count("damaged"), "the chief reports the damage", 30)
        stuck.send_signal(signal.SIGCONT)
        figures = prove(lab, cluster, counter)
        sealed = [event["sealed_epochs"] for _, event in cluster.events.seen if event.get("event") == "published"]
    return {**figures, "damaged": 1, "went_back_epochs": max(a - b for a, b in zip(sealed, sealed[1:]))}
