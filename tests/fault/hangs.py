"""Cases that stop a process, start another one with the same index, and continue the first one.

Then both run at the same time.
"""
import signal
import time

from cluster import Cluster, check, free_port, stop
from lab import prove
from proxied import Proxy


def replaced_by(cluster, role, index):
    """Stops a member, starts a replacement, and waits until the chief has accepted the replacement."""
    member = cluster.member(role, index)
    event = "adopt" if role == "ps" else "hello"
    before = cluster.events.count(event, who=member.name)
    stop(member.process)
    cluster.extra.append(member.process)
    cluster.start(member)
    cluster.wait_until(lambda: cluster.events.count(event, who=member.name) > before, f"another {member.name} is accepted")


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
        # No other chief can run at the chief's address, so the chief has no replacement here.
        cluster.wait_trained(1)
        cluster.signal("chief", 0, signal.SIGSTOP)
        time.sleep(lab.pick(1, 10))
        cluster.signal("chief", 0, signal.SIGCONT)
        return prove(lab, cluster, counter)


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
