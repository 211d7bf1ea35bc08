"""Cases in which ps join and leave during training, with kills during the moves of partitions."""
import signal

from cluster import Cluster, check
from lab import prove


def reshard(lab):
    counter = lab.counter(lab.pick(8, 40))
    with Cluster(lab.bin, counter.folder, counter.job, ps=3) as cluster:
        moved = lambda: cluster.events.total("moved", "partitions")  # noqa: E731
        # The long form kills each side of a move: the source, the target, the chief.
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
    """Returns the move that has begun and has neither ended nor been cancelled, or None."""
    for _, event in reversed(cluster.events.seen):
        if event.get("event") in ("moved", "move_cancelled", "start"):
            return None
        if event.get("event") == "move":
            return event
    return None


def mid_epoch(cluster):
    """Returns whether half of the shards are left, and no checkpoint and no round is under way.

    The chief begins no move during a checkpoint or a round. Near the end of an epoch a stopped ps
    would delay the checkpoint, and no move would begin.
    """
    shards = left = 0
    asking = saving = False
    for _, event in cluster.events.seen:
        name = event.get("event")
        if name == "start":
            asking = saving = False
        elif name == "epoch":
            shards = left = event["shards"]
        elif name == "round":
            asking = True
        elif name == "round_lacking":
            left, asking = event["shards"], False
        elif name == "lease":
            asking = False
        elif name == "ended":
            left -= 1
        elif name in ("save", "published", "save_failed", "save_abandoned"):
            saving = name == "save"
    return 2 * left >= shards > 0 and not asking and not saving


HALF_SHARE = 11  # of 64 partitions, with three ps


def move_chief(lab):
    counter = lab.counter(lab.pick(10, 40), epochs=lab.pick(8, 24))
    with Cluster(lab.bin, counter.folder, counter.job) as cluster:
        moved = lambda: cluster.events.total("moved", "partitions")  # noqa: E731
        sides = ["source", "target"] * lab.pick(1, 3)
        for side in sides:
            cluster.wait_trained(3)
            before, starts = moved(), cluster.events.count("start")
            cluster.wait_until(lambda: mid_epoch(cluster), "an epoch has begun")
            stuck = cluster.signal("ps", 0, signal.SIGSTOP).process  # does not process Freeze
            cluster.join("ps", 2)
            wanted = lambda: (open_move(cluster) or {}).get("from") == "ps 0"  # noqa: E731
            cluster.wait_until(wanted, "a move waits for its source", 8)
            if side == "target":  # its images arrive, but it does not load them
                source, stuck = stuck, cluster.signal("ps", 2, signal.SIGSTOP).process
                source.send_signal(signal.SIGCONT)
            cluster.pause(0.2)
            last = [event.get("event") for _, event in cluster.events.seen[-5:]]
            check(wanted(), f"the move did not wait for its {side}: the last events are {', '.join(map(str, last))}")
            given, cut, views = moved() - before, open_move(cluster)["partitions"], cluster.events.count("view")
            cluster.kill("chief")
            stuck.send_signal(signal.SIGCONT)
            cluster.wait_until(lambda: cluster.events.count("start") > starts, "another chief")  # noqa: B023
            cluster.wait_until(lambda: cluster.events.count("view") > views, "the new chief's view")  # noqa: B023
            # The new chief may give the partitions of the interrupted move to ps 2 without a
            # `moved` event. It moves more partitions only while ps 2 holds less than half of an
            # even share. In both cases ps 2 holds partitions when it leaves, because the first move
            # to a new ps is of one partition.
            wanted_moves = lambda: moved() >= before + given + 8 or given + cut >= HALF_SHARE  # noqa: B023, E731
            cluster.wait_until(wanted_moves, "partitions move on")
            cluster.leave("ps", 2)
            cluster.wait_until(lambda: ("ps", 2) not in cluster.members, "the third ps has left")
            check(moved() > before + given, "no partition has moved under the new chief")
        figures = prove(lab, cluster, counter)
        left = [path.name for path in (cluster.run_dir / "moves").glob("*")]
        check(not left, f"images of moves were left behind: {left}")
    return {**figures, "moved": moved(), "cut": len(sides)}
