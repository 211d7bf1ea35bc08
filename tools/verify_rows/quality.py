"""Rows about the trained model: metrics on public data, and equal metrics for any number of processes."""
import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import time
import zlib
from pathlib import Path

from .frame import Broken, at_least, at_most, is_true, not_run, row
from .lab import CHECKOUT, balanced, outputs, suite_check, two_cores, workers_below
from .peers import venv_python


@row("quickstart", "the README's two commands")
def quickstart(lab):
    """Uses this tree and its build. With --full it uses a fresh copy of the tree, without ccache."""
    tree = CHECKOUT
    if lab.full:
        tree = lab.row_folder("quickstart") / "tree"
        _copy_tree(tree)
    ended, at_s = _run_with_times(lab, [*two_cores(), tree / "tools/quickstart"], tree, timeout_s=1800)
    data_at, train_at = _line_time(at_s, "== click data"), _line_time(at_s, "== Wide & Deep")
    if lab.full:
        yield at_most("clean build on 2 cores", data_at, 600, " s", "tools/quickstart: without tests")
    else:
        yield not_run("clean build on 2 cores", "needs --full")
    yield at_most("quickstart's training and evaluation", ended.wall_s - train_at, 60, " s")
    rows = re.search(r"train\.tsv: (\d+) rows", ended.out)
    yield at_least("rows of training data", int(rows[1]) if rows else None, 1_000_000)
    aucs = re.search(r"test AUC ([\d.]+) of ([\d.]+) possible", ended.out)
    if not aucs:
        raise Broken("tools/quickstart did not print the AUC reached and the best possible one")
    reached, best = map(float, aucs.groups())
    yield at_most("AUC below the best possible", best - reached, 0.01, note=f"{reached} of {best}")
    if not lab.full:
        yield not_run("tools/test", "needs --full")
        return
    tested = lab.run("quickstart", [*two_cores(), tree / "tools/test"], 3600, {"CCACHE_DISABLE": "1"}, tree)
    yield suite_check("tools/test", tested)


def _copy_tree(tree):
    """Copies every file of the checkout that git does not ignore."""
    files = subprocess.run(["git", "-C", CHECKOUT, "ls-files", "-coz", "--exclude-standard"], capture_output=True, check=True).stdout
    for name in filter(None, files.decode().split("\0")):
        if (CHECKOUT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, tree / name)


def _run_with_times(lab, command, tree, timeout_s):
    """Returns Ended, and [(seconds since the start, line of stdout)] with a resolution of a tenth of a second."""
    lines = []
    with lab.start("quickstart", command, timeout_s, {"CCACHE_DISABLE": "1"}, tree) as running:
        while True:
            alive = running.is_running()
            text = running.output()
            whole = text[:text.rfind("\n") + 1] if alive else text  # ignore an incomplete last line
            lines += [(running.age_s(), line) for line in whole.splitlines()[len(lines):]]
            if not alive:
                return running.wait().expect(), lines
            time.sleep(0.1)


def _line_time(lines, start):
    for at_s, line in lines:
        if line.startswith(start):
            return at_s
    raise Broken(f"tools/quickstart did not print \"{start}\"")


def _register_example(name, what, data, auc, logloss=None):
    """Registers a row that trains the example of this name and looks at the metrics of its test file."""
    @row(name, what)
    def trained(lab):
        lab.data(data)
        metrics = outputs(lab.train(name, f"{name}.toml").summary())
        yield at_least("test AUC", metrics["auc"], auc)
        if logloss is not None:
            yield at_most("test logloss", metrics["logloss"], logloss)


_register_example("a9a", "logistic regression on a9a", "a9a/a9a", 0.902, 0.325)


@row("a9a-average", "logistic regression on a9a: the mean of four models of a quarter each, against one of all records")
def a9a_average(lab):
    lines = lab.data("a9a/a9a").read_text().splitlines(keepends=True)
    folder = lab.row_folder("a9a-average")
    aucs, runs = [], []
    for name, part in {"all": lines, **{f"part-{i}": lines[i * len(lines) // 4:(i + 1) * len(lines) // 4] for i in range(4)}}.items():
        (folder / name).write_text("".join(part))
        run_dir = folder / f"run-{name}"
        command = lab.train_command("a9a.toml", run_dir, "--set", f"data.source={folder / name}")
        lab.run("a9a-average", command).expect()
        runs.append(run_dir)
    lab.run("a9a-average", [lab.program(), "average", *runs[1:], "--out", folder / "mean"]).expect()
    for run_dir in [*runs, folder / "mean"]:
        command = [lab.program(), "eval", run_dir, "--data", lab.data("a9a/a9a.t"), "--log-format", "json", "--quiet"]
        aucs.append(outputs(json.loads(lab.run("a9a-average", command).expect().out))["auc"])
    yield at_most("AUC of the model of all records - AUC of the mean", aucs[0] - aucs[-1], 0.003,
                  note=f"{aucs[0]:.4f} - {aucs[-1]:.4f}; of one quarter {min(aucs[1:5]):.4f} to {max(aucs[1:5]):.4f}")


_register_example("adult", "Wide & Deep on adult (CSV)", "adult/adult.data", 0.912)
_register_example("frappe-lr", "logistic regression on frappe", "frappe/train.libfm", 0.930)
_register_example("frappe-embedding", "embeddings on frappe", "frappe/train.libfm", 0.930)
_register_example("frappe-fm", "a factorization machine on frappe", "frappe/train.libfm", 0.945)
_register_example("frappe-dropout", "a wide factorization machine with dropout on frappe", "frappe/train.libfm", 0.950, 0.235)


@row("defaults", "train DATAFILE without a job, on public data: means of 3 seeds on the published test files")
def defaults(lab):
    folder = lab.row_folder("defaults")
    adult = folder / "adult.test"  # its first line is a comment, and its labels end with a full stop
    adult.write_text("\n".join(line.rstrip(".") for line in _lines(lab.data("adult/adult.test")) if "," in line) + "\n")
    cases = [("adult/adult.data", adult, "auc", 0.927), ("adult/adult.data", adult, "logloss", 0.2764),
             ("california-housing/train.csv", lab.data("california-housing/test.csv"), "rmse", 1.03 * 49_378),
             ("frappe/train.libfm", lab.data("frappe/test.libfm"), "logloss", 0.28),
             ("sentence-polarity/train.tsv", lab.data("sentence-polarity/test.tsv"), "auc", 0.8415),
             ("sentence-polarity/train.tsv", lab.data("sentence-polarity/test.tsv"), "logloss", 0.50)]
    reached = {}
    for train, test in {case[:2] for case in cases}:
        reached[train] = []
        for seed in (1, 2, 3):
            run = folder / f"{Path(train).parent}-{seed}"
            named = folder / f"{seed}-{Path(train).name}"  # the name decides which records are held out
            shutil.copy(lab.data(train), named)
            lab.run("defaults", [lab.program(), "train", named, "--seed", seed, "--set", f"run_dir={run}"]).expect()
            ended = lab.run("defaults", [lab.program(), "eval", run, "--data", test, "--log-format", "json", "--quiet"]).expect()
            reached[train].append(outputs(json.loads(ended.out)))
    for train, _, metric, wanted in cases:
        values = [metrics[metric] for metrics in reached[train]]
        judge = at_least if metric == "auc" else at_most
        yield judge(f"{Path(train).parent}, test {metric}", sum(values) / len(values), wanted,
                    note="seeds: " + ", ".join(f"{value:.4f}" for value in values))


@row("defaults-kdd", "train DATAFILE without a job on kddcup99, 23 classes: means of 3 seeds on a tenth of its distinct lines")
def defaults_kdd(lab):
    folder = lab.row_folder("defaults-kdd")
    with gzip.open(lab.data("kddcup99/kddcup.data_10_percent.gz"), "rt") as file:
        distinct = dict.fromkeys(file)
    with open(folder / "train.csv", "w") as train, open(folder / "test.csv", "w") as test:
        for line in distinct:
            (test if zlib.crc32(line.encode()) % 10 == 0 else train).write(line)
    official = lab.data("kddcup99/corrected.gz")  # has kinds of attacks that the training data lacks

    def evaluate(run, data, *flags):
        return lab.run("defaults-kdd", [lab.program(), "eval", run, "--data", data, "--log-format", "json", "--quiet", *flags])

    reached = []
    for seed in (1, 2, 3):
        run = folder / f"run-{seed}"
        lab.run("defaults-kdd", [lab.program(), "train", folder / "train.csv", "--seed", seed, "--set", f"run_dir={run}"], 900).expect()
        reached.append(outputs(json.loads(evaluate(run, folder / "test.csv").expect().out)))
    python = venv_python(lab, {"pandas": "pandas", "sklearn": "scikit-learn"})
    forests = lab.run("defaults-kdd", [python, Path(__file__).with_name("forest_figures.py"), folder / "train.csv", folder / "test.csv"], 600).expect().summary()
    beside = "; scikit-learn: " + ", ".join(f"{name} {accuracy:.5f}" for name, accuracy in forests.items())
    for metric, judge, wanted, others in (("logloss", at_most, 0.01, ""), ("accuracy", at_least, 0.999, beside)):
        values = [metrics[metric] for metrics in reached]
        yield judge(f"test {metric}", sum(values) / len(values), wanted, note="seeds: " + ", ".join(f"{value:.5f}" for value in values) + others)
    refused = evaluate(folder / "run-1", official)
    yield is_true("labels of the official test file that training never saw", refused.code != 0 and "unknown_labels" in refused.err,
                  "refused, with the key that skips them", f"exit {refused.code}", refused.err.splitlines()[0] if refused.err else "")
    skipped = evaluate(folder / "run-1", official, "--skip-unknown-labels").expect()
    known = {line.rsplit(",", 1)[1] for line in distinct}
    with gzip.open(official, "rt") as file:
        unknown = sum(line.rsplit(",", 1)[1] not in known for line in file)
    counted = re.search(r"leave out (\d+) records, whose labels", skipped.err)
    yield is_true("these labels, with --skip-unknown-labels", counted is not None and int(counted[1]) == unknown, f"{unknown:,} records left out",
                  f"{int(counted[1]):,}" if counted else "no count")


@row("mnist", "softmax MLP 784-128-10 on mnist")
def mnist(lab):
    lab.data("mnist/train-images-idx3-ubyte.gz")
    yield at_least("test accuracy", outputs(lab.train("mnist", "mnist.toml").summary())["accuracy"], 0.97)


@row("criteo-small", "trains and predicts from the raw TSV, missing values included")
def criteo_small(lab):
    records = _lines(lab.data("criteo-small/train.tsv"))
    missing = sum(1 for line in records if "" in line.split("\t"))
    summary = lab.train("criteo-small", "criteo-small.toml").summary()
    wrong = balanced(summary, len(records))
    yield is_true("every record trained", not wrong, "all applied", wrong or f"{len(records)} an epoch", f"{missing} with missing values")
    # The test file, and a record whose values are all missing.
    asked = lab.row_folder("criteo-small") / "asked.tsv"
    lines = [*_lines(lab.data("criteo-small/test.tsv")), "0" + "\t" * 39]
    asked.write_text("\n".join(lines) + "\n")
    told = lab.row_folder("criteo-small") / "told.tsv"
    lab.run("criteo-small", [lab.program(), "predict", lab.row_folder("criteo-small") / "run", "--data", asked, "--out", told]).expect()
    answers = [float(line) for line in _lines(told)]
    good = len(answers) == len(lines) and all(0 < answer < 1 for answer in answers)
    yield is_true("predictions", good, f"{len(lines)} in (0, 1)", f"{sum(0 < a < 1 for a in answers)} in (0, 1)", "the last record is empty")


def _lines(path):
    return path.read_text().splitlines()


# ---- modes -------------------------------------------------------------------------------------------------------------

SEEDS = (1, 2, 3)
MODES = {
    "one process": (),
    "2 + 2, ipc": ("--ps", 2, "--workers", 2, "--transport", "ipc"),
    "2 + 2, tcp": ("--ps", 2, "--workers", 2, "--transport", "tcp"),
}


@row("modes", "the same model however many processes; a killed worker")
def modes(lab):
    clicks, _ = lab.synth("modes", "train.tsv", 1_000_000, 0, "--ids", 2000)
    other, _ = lab.synth("modes", "test.tsv", 100_000, 1, "--ids", 2000)
    click_job = ("quickstart.toml", ("--set", f"data.source={clicks}", "--set", f"eval.source={other}"))
    try:
        records = len(_lines(lab.data("a9a/a9a")))
        yield from _compare_modes(lab, "a9a, logistic regression", "a9a.toml", (), records)
    finally:  # the click data need no files from outside
        yield from _compare_modes(lab, "clicks, Wide & Deep", *click_job, 1_000_000)
        yield from _kill_one_worker(lab, *click_job, 1_000_000)


def _compare_modes(lab, title, job, flags, records):
    aucs = {mode: [] for mode in MODES}
    wrong = []
    for seed in SEEDS:
        for mode, processes in MODES.items():
            summary = lab.train("modes", job, *flags, *processes, "--seed", seed).summary()
            aucs[mode].append(outputs(summary)["auc"])
            wrong += [f"{mode}, seed {seed}: {text}" for text in [balanced(summary, records)] if text]
    means = {mode: sum(values) / len(values) for mode, values in aucs.items()}
    spread = max(max(column) - min(column) for column in zip(*aucs.values()))
    yield at_most(f"{title}: AUC's spread over the modes", spread, 0.002,
                  note="largest of 3 seeds; means " + ", ".join(f"{mode} {auc:.4f}" for mode, auc in means.items()))
    runs = len(SEEDS) * len(MODES)
    yield is_true(f"{title}: account", not wrong, "balances", "; ".join(wrong) or f"balances in {runs} runs")


def _kill_one_worker(lab, job, flags, records):
    run_dir = lab.row_folder("modes") / "run"
    command = lab.train_command(job, run_dir, *flags, "--ps", 2, "--workers", 2)
    with lab.start("modes", command, 300) as running:
        share = _kill_when_begun(running, run_dir / "events.jsonl")
        ended = running.wait()
    title = "kill -9 of one of two workers"
    yield is_true(title, ended.code == 0, "exit 0", f"exit {ended.code}", f"when {share:.0%} of the shards had ended")
    if ended.code != 0:
        return
    summary = ended.summary()
    wrong = balanced(summary, records)
    yield is_true(f"{title}: account", not wrong, "balances", wrong or f"balances, {records:,} records")
    yield at_least(f"{title}: workers lost", summary["workers_lost"], 1, note=f"{summary['repeated_leases']} leases, {summary['duplicate_parts']} parts repeated")


def _kill_when_begun(running, events):
    """Kills a worker when at least a fifth of the epoch's shards have ended. Returns the share that has ended."""
    while running.is_running():
        text = events.read_text() if events.exists() else ""
        shards = re.search(r'"train_shards":(\d+)', text)
        ended = text.count('"event":"ended"')
        workers = workers_below(running.pid)
        if shards and ended >= int(shards[1]) / 5 and len(workers) == 2:
            if ended >= int(shards[1]) * 0.9:
                raise Broken(f"{ended} of {shards[1]} shards had ended before a worker could be killed")
            os.kill(workers[0], signal.SIGKILL)
            return ended / int(shards[1])
        time.sleep(0.01)
    running.wait().expect()
    raise Broken("the training had ended before a worker could be killed")
