"""Permutation importance: `downpour importance` agrees with Model.importance, on CSV and JSON lines."""

import json
import subprocess

import downpour as dp
import numpy as np
import pandas as pd
import pytest
from downpour._programs import program


def frame_of(seed, rows=2000):
    """Two columns decide the label: the number more than the text. The third does not, and `other` is not read."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.uniform(-1, 1, rows).round(6), "colour": rng.choice(["a, b", 'c"d', "e"], rows),
                          "noise": rng.normal(size=rows).round(6)})
    chance = 1 / (1 + np.exp(-6 * frame.x - 1.5 * (frame.colour == "e")))
    return frame, (rng.random(rows) < chance).astype(int)


def run(*arguments):
    ended = subprocess.run([program("downpour"), *map(str, arguments)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_verb_agrees_with_the_model(tmp_path, form):
    frame, y = frame_of(1)
    test, labels = frame_of(2)
    both, path = test.assign(label=labels, other=7), tmp_path / f"test.{form}"
    if form == "csv":
        model = dp.Model(epochs=5).fit(frame, y)
        model.save(tmp_path / "run")
        both = both.rename(columns={"label": model.description["outputs"][0]["target"]})
        both.to_csv(path, index=False)
    else:
        frame.assign(label=y, other=7).to_json(tmp_path / "train.jsonl", orient="records", lines=True)
        run("train", tmp_path / "train.jsonl", "--quiet", "--set", f"run_dir={tmp_path / 'run'}", "--epochs", 5)
        model = dp.Model.load(tmp_path / "run")
        both.to_json(path, orient="records", lines=True)
    found = json.loads(run("importance", tmp_path / "run", "--data", path, "--json", "--repeats", 10, "--threads", 2))
    rises = {each["column"]: each["rise"] for each in found["columns"]}
    assert found["metric"] == "logloss" and found["records"] == 2000
    assert list(rises)[:2] == ["x", "colour"] and rises["x"] > 5 * rises["colour"] > 0
    assert abs(rises["noise"]) < 0.01
    again = json.loads(run("importance", tmp_path / "run", "--data", path, "--json", "--repeats", 10, "--threads", 1))
    assert again == found
    if form == "csv":
        wanted = model.importance(test, labels, repeats=10)
        for each in found["columns"]:
            if each["column"] in wanted:
                assert each["rise"] == pytest.approx(wanted[each["column"]], abs=3 * each["deviation"] + 1e-3)
        p = model.predict_proba(test)[np.arange(len(labels)), labels]
        assert found["base"] == pytest.approx(-np.log(p).mean(), abs=1e-5)


def test_data_without_columns_are_refused(tmp_path):
    frame, y = frame_of(1, 200)
    (tmp_path / "train.svm").write_text("".join(f"{label} {1 + i % 9}:1\n" for i, label in enumerate(y)))
    run("train", tmp_path / "train.svm", "--quiet", "--set", f"run_dir={tmp_path / 'run'}", "--epochs", 1)
    ended = subprocess.run([program("downpour"), "importance", tmp_path / "run", "--data", tmp_path / "train.svm"],
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 64 and "libsvm" in ended.stderr and "csv, tsv or JSON lines" in ended.stderr


def test_deeply_nested_json_is_a_bad_record(tmp_path):
    frame, y = frame_of(1, 200)
    frame.assign(label=y).to_json(tmp_path / "train.jsonl", orient="records", lines=True)
    run("train", tmp_path / "train.jsonl", "--quiet", "--set", f"run_dir={tmp_path / 'run'}", "--epochs", 1)
    (tmp_path / "deep.jsonl").write_text('{"x": 1, "label": 1, "other": ' + "[" * 300_000 + "]" * 300_000 + "}\n")
    ended = subprocess.run([program("downpour"), "importance", tmp_path / "run", "--data", tmp_path / "deep.jsonl"],
                           capture_output=True, text=True, check=False)
    assert ended.returncode == 65 and "nested too deeply" in ended.stderr


def test_the_filter_of_the_job_is_applied_before_columns_are_shuffled(tmp_path):
    frame, y = frame_of(1, 400)
    frame.assign(label=y).to_csv(tmp_path / "train.csv", index=False)
    run("train", tmp_path / "train.csv", "--quiet", "--set", f"run_dir={tmp_path / 'run'}", "--epochs", 1, "--set",
        "data.filter=x > 0")
    kept = frame.assign(label=y)[frame["x"] > 0]
    kept.to_csv(tmp_path / "kept.csv", index=False)
    assert 0 < len(kept) < 400
    of_all, of_kept = (json.loads(run("importance", tmp_path / "run", "--data", tmp_path / name, "--json"))
                       for name in ("train.csv", "kept.csv"))
    assert of_all == of_kept and of_all["records"] == len(kept)


def test_a_cross_is_no_column(tmp_path):
    frame, y = frame_of(1, 400)
    frame.assign(label=y, shop=frame["noise"].gt(0).map({True: "s", False: "t"})).to_csv(tmp_path / "train.csv",
                                                                                        index=False)
    (tmp_path / "job.toml").write_text(
        'run_dir = "run"\ndata = { source = "train.csv", format = "csv", header = true, fields = { label = {}, '
        'colour = { type = "string" }, shop = { type = "string" }, '
        'both = { transform = [{ op = "cross", fields = ["colour", "shop"] }] } } }\n'
        'model = { preset = "logistic_regression" }\ntrain.epochs = 1\n')
    run("train", tmp_path / "job.toml", "--quiet")
    found = json.loads(run("importance", tmp_path / "run", "--data", tmp_path / "train.csv", "--json"))
    assert {each["column"] for each in found["columns"]} == {"colour", "shop"}


def test_structured_and_masked_arrays():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 2))
    y = x[:, 0] > 0
    gone = np.arange(600) % 3 == 0
    mask = np.c_[np.zeros(600, bool), gone]
    masked = np.ma.masked_array(np.where(mask, 99.0, x), mask)
    model = dp.Model(epochs=5).fit(masked, y)
    wanted = model.importance(masked.filled(np.nan), y)
    assert model.importance(masked, y) == wanted
    assert model.importance({"x0": masked[:, 0], "x1": masked[:, 1]}, y) == wanted
    records = np.rec.fromarrays([x[:, 0], masked.filled(np.nan)[:, 1]], names=["x0", "x1"])
    assert model.importance(records, y) == wanted


def test_a_column_that_only_the_filter_reads_has_no_importance(tmp_path):
    frame, y = frame_of(3)
    frame.assign(label=y, kept=1).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "job.toml").write_text(
        'data = { source = "data.csv", filter = "kept == 1", fields = { x = {}, noise = {}, label = {}, kept = {} } }\n'
        'model = { preset = "logistic_regression", target = "label", inputs = ["x", "noise"] }\ntrain.epochs = 1\n'
    )
    run("train", tmp_path / "job.toml", "--quiet", "--set", f"run_dir={tmp_path / 'run'}")
    found = json.loads(run("importance", tmp_path / "run", "--data", tmp_path / "data.csv", "--json"))
    assert sorted(each["column"] for each in found["columns"]) == ["noise", "x"]
