"""A row about exactly-once when the data change, the newest checkpoint is damaged, or the disk is full."""
from .frame import is_true, row
from .recovery import fault_case


@row("hardening-exact", "changed data, a fallback while a ps hangs, a chief on a full disk, a shard leased alone")
def hardening_exact(lab):
    found = fault_case(lab, "hardening-exact", "changed-data")
    yield is_true("data file replaced within an epoch, before any checkpoint of it", found["refused"] == 2, "refused, 78", f"refused {found['refused']} of 2 times",
                  "in the first epoch of a run, and in the first one after `epochs` was raised; nothing trained")
    yield is_true("every weight once the file is back", True, "exact", f"{found['weights']}; {found['weights_later']}", f"{found['records']:,} records")
    found = fault_case(lab, "hardening-exact", "damaged")
    yield is_true("a fallback to an older epoch while a ps hangs, which then wakes up", True, "recovered, every weight exact", found["weights"],
                  f"went back {found['went_back_epochs']} epochs; {found['records']:,} records; account balances")
    found = fault_case(lab, "hardening-exact", "chief-full-disk")
    yield is_true("a chief started again on a full disk", True, "continued, every weight exact", found["weights"], f"{found['warnings']} warnings about job.toml")
    # Real processes can't reproduce this reliably: a report must be lost between two messages of a worker.
    name = "a single-step lease of a shard that has ended everywhere counts its real batches"
    ended = lab.run("hardening-exact", [lab.program("worker_core_test"), name], 60)
    yield is_true("batches reported of a shard that is leased alone and has ended elsewhere", ended.code == 0 and "1 test case" in ended.out, "as many as it has",
                  "holds" if ended.code == 0 else f"exit {ended.code}", "worker_core_test")
