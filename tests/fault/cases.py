#!/usr/bin/env python3
"""Faults on real processes: no update is lost, and none is applied twice.

  tests/fault/cases.py --list
  tests/fault/cases.py kill-counter            one case, in its short form
  tests/fault/cases.py --long                  all cases, in their long form (or DP_FAULT_LONG=1)
  tests/fault/cases.py --json kill-counter     the measured figures, for programs

A case trains the counter model, whose weights show how often each update was applied, or a real job that is compared
with a run without faults. The exit status is 1 if a case fails, and 77 if this machine can't run any of the cases.
"""
import argparse
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
import hangs  # noqa: E402
import kills  # noqa: E402
import local_train  # noqa: E402
import moves  # noqa: E402
import network  # noqa: E402
import stops  # noqa: E402
import storage  # noqa: E402
from cluster import Failed, Scratch  # noqa: E402
from lab import Lab, Skipped  # noqa: E402

CHECKOUT = Path(__file__).resolve().parent.parent.parent
SKIPPED = 77

CASES = {  # name: (the function, what it does and proves)
    "kill-counter": (kills.kill_counter, "kill -9 of worker, ps, chief in turn every 2 s: every weight is exact"),
    "kill-auc": (kills.kill_auc, "the same on a real job: AUC as without faults"),
    "kill-local": (local_train.kill_local, "`downpour train` restarts its local processes"),
    "kill-input": (kills.kill_input, "input processes are killed and stopped, and all at once: every weight is exact"),
    "again-and-again": (local_train.again_and_again, "a local worker that dies again and again is restarted while the job makes progress"),
    "crash-loop": (local_train.crash_loop, "a local ps that dies before any progress ends the job after three restarts, with its reason"),
    "kill-all": (kills.kill_all, "all processes are killed at once, and the same commands continue the job"),
    "chief-down": (kills.chief_down, "the chief stays down for a while: no other process is restarted"),
    "ps-restart": (kills.ps_restart, "one of two ps with much state is killed: it alone is restored from the checkpoint"),
    "stopped": (hangs.stopped, "a worker and a ps hang, are replaced, and wake up"),
    "stopped-chief": (hangs.stopped_chief, "a chief hangs, another takes the run over, and the first wakes up"),
    "reshard": (moves.reshard, "3 -> 5 -> 3 ps while training, with kills in the middle of moves"),
    "move-chief": (moves.move_chief, "the chief is killed in the middle of a move: the next chief decides who owns the partitions"),
    "stops": (stops.stop_at_random, "SIGTERM and SIGINT to the group, single processes and subsets at random moments: a checkpoint each time"),
    "stops-by-hand": (stops.stop_by_hand, "SIGTERM to all ps, all workers, the chief, or all: the chief saves and ends with 143"),
    "network": (network.network, "one-way loss, delay, half-open and slow connections, resets"),
    "hostile": (network.hostile_peers, "random bytes, half greetings, huge claims and idle connections during training (R7)"),
    "descriptors": (network.descriptors, "3,000 idle connections where 1,024 descriptors are allowed: checkpoints are still written"),
    "hostile-rate": (network.hostile_rate, "two equal jobs at once, one under attack at all ports: compares rate, memory and log bytes"),
    "disk-full": (storage.disk_full, "a full disk: training continues, and checkpoints continue once the disk has room"),
    "changed-data": (storage.changed_data, "the chief is killed and its data file replaced: the next chief exits, and the job continues with the old file"),
    "damaged": (storage.damaged, "a ps hangs while a damaged checkpoint rolls all ps back an epoch, and wakes up: every weight is exact"),
    "chief-full-disk": (storage.chief_full_disk, "the chief is restarted on a full disk: training continues, and checkpoints once the disk has room"),
}


def run_case(name, asked):
    with Scratch(keep=asked.keep) as folder:
        lab = Lab(folder, asked)
        begun = time.monotonic()
        figures, state, why = {}, "ok", ""
        try:
            figures = CASES[name][0](lab)
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
        for name, (_, what) in CASES.items():
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
