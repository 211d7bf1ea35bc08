"""Checks docs/from-tensorflow.md: Downpour accepts the job lines that it names and rejects those that it calls not available
yet, and the page mentions every name of TensorFlow."""
import re

from .frame import NotRun, is_true, not_run, row
from .lab import CHECKOUT
from .peers import venv_python

TENSORFLOW = {"tensorflow": "tensorflow-cpu"}
PAGE = CHECKOUT / "docs/from-tensorflow.md"
LINE = r"`((?:data|model|optimizer|train|eval|cluster)(?:\.\w+)* = [^`]+|partitions = \d+|seed = \d+)`"
NOT_AVAILABLE = "DP-2105"
# A single line may fail because a file, a column or another key of the job is missing. These errors mean that the line itself is wrong.
WRONG = re.compile(r"DP-(2101|2102|2103|2104|2105|2109|2111)")
JOB = """
run_dir = "run"
data = { source = "clicks.tsv", format = "criteo" }
model.preset = "wide_deep"
"""


def _refusal(lab, job, line):
    """Returns the id of the error in a dry run of the job with that line; "" if the line is accepted."""
    ended = lab.run("from-tensorflow", [lab.program(), "train", job, "--dry-run", "--set", line.replace(" = ", "=", 1)], 60,
                    {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"})  # contact no real object store
    said = re.search(r"\[(DP-\d+)\]", ended.err)
    return said[1] if said and ended.code != 0 else ""


@row("from-tensorflow", "docs/from-tensorflow.md: its job lines, and every public name of tf.data and tf.distribute")
def from_tensorflow(lab):
    text = PAGE.read_text()
    job = lab.row_folder("from-tensorflow") / "job.toml"
    job.write_text(JOB)
    lab.synth("from-tensorflow", "clicks.tsv", 1000)
    absent = set(re.findall("not there yet: " + LINE, text, re.IGNORECASE))
    there = set(re.findall(LINE, text)) - absent
    wrong = [line for line in sorted(there) if WRONG.match(_refusal(lab, job, line))]
    yield is_true("job lines that the page says to write", not wrong and there, "all taken", f"{len(there) - len(wrong)} of {len(there)}", "; ".join(wrong))
    built = [line for line in sorted(absent) if _refusal(lab, job, line) not in (NOT_AVAILABLE, "DP-2103")]
    yield is_true("job lines that it calls not there yet", not built, "all refused", f"{len(absent) - len(built)} of {len(absent)}", "; ".join(built))
    try:
        python = venv_python(lab, TENSORFLOW)
    except NotRun as why:
        yield not_run("names of TensorFlow", str(why))
        return
    names = lab.run("from-tensorflow", [python, CHECKOUT / "tools/verify_rows/tf_names.py"], 300).expect().summary()
    forgotten = [name for name in names if not re.search(rf"\b{name}\b", text)]
    yield is_true("public names of tf.data and tf.distribute", not forgotten, "all on the page", f"{len(names) - len(forgotten)} of {len(names)}", ", ".join(forgotten))
