"""A row about stop signals: a supervisor may send them to any processes of a job at any time."""
from .frame import at_least, at_most, is_true, row
from .recovery import fault_case

MOMENTS = 200


@row("hardening-signals", "SIGTERM and SIGINT at random moments to the group, single processes and subsets")
def hardening_signals(lab):
    found = fault_case(lab, "hardening-signals", "stops", "--moments", MOMENTS, timeout_s=7200)
    forms = ", ".join(f"{count} of {form}" for form, count in found["moments_by_form"].items())
    yield at_least("stops with a checkpoint and 143 or 130", found["moments"], MOMENTS,
                   note=f"seed {found['seed']}; {forms}; {found['before_the_first_view']} before there was anything to save, "
                        f"{found['job_had_completed']} when the job had completed (0)")
    yield is_true("every weight after the resumed runs", True, "exact", found["weights"],
                  f"{found['runs']} runs of {found['records']:,} records; every account balances")
    yield at_most("from the signal to the end", found["seconds_to_end_max"], 30, " s", "the longest")
