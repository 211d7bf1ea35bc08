"""Rows and checks: a row is a registered function that yields checks. Runs rows, judges checks and prints them."""
import json
import math
import statistics
import traceback
from dataclasses import asdict, dataclass

OK, FAIL, NOT_RUN = "ok", "FAIL", "NOT RUN"


class NotRun(Exception):
    """The row needs something that is missing: data, a rival program, or a flag."""


class Broken(Exception):
    """The row could not measure: a command failed, did not end, or printed something unexpected."""


@dataclass
class Check:
    what: str
    wanted: str
    got: str
    state: str
    value: float | None = None  # `got` as a number, if it is one
    note: str = ""              # details: the figure of the other side, the range, sizes


def at_least(what, value, bound, unit="", note=""):
    return _bounded(what, value, ">=", bound, unit, note)


def at_most(what, value, bound, unit="", note=""):
    return _bounded(what, value, "<=", bound, unit, note)


def below(what, value, bound, unit="", note=""):
    return _bounded(what, value, "<", bound, unit, note)


def is_true(what, condition, wanted, got, note=""):
    return Check(what, wanted, got, OK if condition else FAIL, note=note)


def not_run(what, why):
    return Check(what, "", why, NOT_RUN)


def _bounded(what, value, relation, bound, unit, note):
    if value is None or not math.isfinite(value):
        return Check(what, f"{relation} {figure(bound)}{unit}", "no figure", FAIL, note=note)
    holds = {">=": value >= bound, "<=": value <= bound, "<": value < bound}[relation]
    return Check(what, f"{relation} {figure(bound)}{unit}", f"{figure(value)}{unit}", OK if holds else FAIL, value, note)


def figure(value):
    """Formats integers and values from 1000 on as whole numbers with thousands separators, and others with four
    significant digits."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def median(values):
    return statistics.median(values)


# ---- registry ----------------------------------------------------------------------------------------------------------

@dataclass
class Row:
    name: str
    what: str
    function: object


ROWS: dict[str, Row] = {}


def row(name, what):
    """Registers a generator of checks. `tools/verify NAME` runs it under this name."""
    def register(function):
        assert name not in ROWS, name
        ROWS[name] = Row(name, what, function)
        return function
    return register


def rows_named(name):
    """Returns the row with this name, or the family of rows whose names begin with it and a hyphen."""
    return [row_ for row_ in ROWS.values() if row_.name == name] or [row_ for row_ in ROWS.values() if row_.name.startswith(name + "-")]


def checks_of(row_, lab):
    """Yields the row's checks as they are made. If the row breaks off, the last check contains the reason."""
    try:
        yield from row_.function(lab)
    except NotRun as why:
        yield not_run(row_.what, str(why))
    except Broken as why:
        yield Check(row_.what, "works", str(why), FAIL)
    except Exception:  # an error in one row must not prevent the others
        yield Check(row_.what, "works", "this row's script failed: " + traceback.format_exc(limit=-1).strip(), FAIL)


# ---- output ------------------------------------------------------------------------------------------------------------

def text_line(name, check):
    if check.state == NOT_RUN:
        return f"{name:<16} {check.what:<46} NOT RUN: {check.got}"
    line = f"{name:<16} {check.what:<46} {check.wanted:<16} {check.got:<16} {check.state}"
    return line + (f"  ({check.note})" if check.note else "")


def as_json(machine, results):
    rows = [{"row": name, **asdict(check)} for name, check in results]
    return json.dumps({"machine": machine, "checks": rows}, indent=1)


def as_markdown(machine, results):
    def cell(text):
        return text.replace("|", "\\|").replace("\n", " ")
    lines = [", ".join(f"{key}: {value}" for key, value in machine.items()), "",
             "| row | what | wanted | got | | |", "|---|---|---|---|---|---|"]
    for name, check in results:
        lines.append(f"| {name} | {cell(check.what)} | {cell(check.wanted)} | {cell(check.got)} | {check.state} | {cell(check.note)} |")
    return "\n".join(lines)
