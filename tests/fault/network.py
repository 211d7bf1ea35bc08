"""Cases with a bad network (through a proxy), hostile peers, and too many connections."""
import json
import subprocess
import sys
import time
from pathlib import Path

import hostile
from cluster import Cluster, Counter, check, free_port
from lab import prove, resident_mb
from proxied import Proxy

NETWORK = [("hold up", 0.8), ("hold down", 0.8), ("delay 100", 0.8), ("half", 0.2), ("trickle 20000", 0.8), ("reset", 0.2), ("hold both", 1.0)]


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
                        continue  # the peers notice it only after 10 to 20 s of silence
                    cluster.pause(0.1)
                    proxy.tell(command)
                    cluster.pause(seconds * lab.pick(0.5, 1))
                    proxy.tell("pass")
                    done += 1
        check(done >= len(NETWORK), f"the job had ended after {done} of at least {len(NETWORK)} faults")
        return prove(lab, cluster, counter, {"faults": done})


def hostile_peers(lab):
    counter = lab.counter(lab.pick(6, 30))
    # Without keys, so that the bytes of the attacker reach the parsers.
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
        check(trained > 0, "no shard ended during the attack")
        peak = max(resident_mb(cluster.member(role, index).process.pid) for role, index in PORT_OWNERS)
        check(peak < 512, f"a process grew to {peak:.0f} MB")
        return prove(lab, cluster, counter, {"attacks": attack.count, "rss_mb_max": peak})


PORT_OWNERS = (("chief", 0), ("ps", 0), ("ps", 1))


def ports_of(cluster):
    """Returns the ports of the chief and of every ps."""
    hosts = [event["endpoint"].partition("?")[0].rsplit(":", 1)[1] for _, event in cluster.events.seen if event.get("event") == "hello" and event["endpoint"]]
    return [cluster.chief_port, *map(int, hosts)]


def descriptors(lab):
    counter = lab.counter(lab.pick(6, 20))
    flags = ["--set", 'train.checkpoint={ every = "500ms" }']
    with Cluster(lab.bin, counter.folder, counter.job, flags=flags, prefix=("prlimit", "--nofile=1024:1024")) as cluster:
        cluster.wait_trained(5)
        attack = hostile.Attack(ports_of(cluster), idle=3000)
        check(attack.count["idle"] == 3000, f"only {attack.count['idle']} connections were made")
        cluster.turn()
        check(not cluster.finished, "the job had ended before the connections were counted")
        used = {f"{role} {index}": len(list(Path(f"/proc/{cluster.member(role, index).process.pid}/fd").iterdir())) for role, index in PORT_OWNERS}
        published = cluster.events.count("published")
        cluster.wait_until(lambda: cluster.events.count("published") > published + 1, "two checkpoints are published while the connections are open")
        failed = [line for line in cluster.log("chief").read_text().splitlines() if "checkpoint" in line and "fail" in line.lower()]
        check(not failed, f"a checkpoint failed: {failed[:1]}")
        attack.close()
        return prove(lab, cluster, counter, {"idle": 3000, "descriptors_used": used, "published": cluster.events.count("published")})


def log_bytes(cluster):
    return sum(path.stat().st_size for path in (*cluster.folder.glob("*.log"), cluster.run_dir / "events.jsonl"))


def hostile_rate(lab):
    seconds = lab.seconds or lab.pick(6, 60)
    counters = [lab.counter(seconds * 0.9 + 4)]
    folder = lab.new_folder("plain")
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
            attack.terminate()
            attacks = json.loads(attack.communicate(timeout=30)[0])
        check(all(attacks.values()), f"some attacks made no connection: {attacks}")
        check(took >= 0.6 * seconds, f"a job ended {took:.0f} s after the attack began, but the attack lasts {seconds:.0f} s")
        shards = [cluster.events.count("ended") - count for cluster, count in zip(both, trained)]
        peaks = [[resident_mb(cluster.member(*owner).process.pid) for owner in PORT_OWNERS] for cluster in both]
        logged = [log_bytes(cluster) - count for cluster, count in zip(both, before_bytes)]
        figures = {"seconds_attacked": took, "attacks": attacks, "rate_share": shards[0] / max(1, shards[1]),
                   "rss_mb_more": max(a - b for a, b in zip(*peaks)), "log_mb_per_minute": (logged[0] - logged[1]) / 1e6 / took * 60}
        figures |= prove(lab, attacked, counters[0], timeout_s=4 * seconds + 180)
        prove(lab, plain, counters[1], timeout_s=4 * seconds + 180)
        return figures
