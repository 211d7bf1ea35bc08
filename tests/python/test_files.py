"""Files: Parquet and Feather tables, converted for the programs and read by Model, and training with processes."""

import decimal
import json
import pathlib
import pickle
import re
import subprocess
import sys

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from downpour import _files, _programs


def animals(rows=2000, seed=1):
    rng = np.random.default_rng(seed)
    size, grey = rng.uniform(0, 10, rows), rng.random(rows) < 0.5
    kind = np.where(size > 6, "horse", np.where(grey, "mouse", "fox"))
    return pd.DataFrame({"size": size, "colour": np.where(grey, "grey", "brown"), "kind": kind})


def convert(*arguments, status=0):
    done = subprocess.run(
        [sys.executable, "-m", "downpour", "convert", *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def test_values_of_a_csv_file_are_those_of_the_table(tmp_path):
    table = pa.table({
        "text": pa.array(["a", None, 'with "quotes", and comma', "ü"]),
        "category": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "number": pa.array([1.5, float("nan"), None, 1e-30]),
        "single": pa.array([0.1, 2.0, -3.25, None], pa.float32()),
        "count": pa.array([1, -5, None, 2**40]),
        "flag": pa.array([True, False, None, True]),
        "price": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-3.50"), decimal.Decimal("0.01")]),
        "day": pa.array([0, 1, None, 20000], pa.date32()),
    })
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    feather.write_feather(table, str(tmp_path / "t.feather"))
    assert "4 records" in convert(tmp_path / "t.parquet", "--out", tmp_path / "t.csv")
    read = pd.read_csv(tmp_path / "t.csv", keep_default_na=False, na_values=[""])
    assert list(read.columns) == table.schema.names
    assert read.text.tolist()[2:] == ['with "quotes", and comma', "ü"] and pd.isna(read.text[1])
    np.testing.assert_array_equal(read.number, [1.5, np.nan, np.nan, 1e-30])
    np.testing.assert_array_equal(read.single.astype(np.float32), np.float32([0.1, 2, -3.25, np.nan]))
    assert read["count"].tolist()[3] == 2**40 and pd.isna(read["count"][2])
    np.testing.assert_array_equal(read.flag, [1, 0, np.nan, 1])
    np.testing.assert_array_equal(read.price, [1.25, np.nan, -3.5, 0.01])
    assert read.day.tolist()[3] == "2024-10-04"
    convert(tmp_path / "t.feather", "--out", tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()
    convert(tmp_path / "t.parquet", "--out", tmp_path / "t.jsonl.gz")
    lines = pd.read_json(tmp_path / "t.jsonl.gz", lines=True)
    assert len(lines) == 4 and lines["count"].tolist()[3] == 2**40


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_decimals_without_decimal_places_and_views_of_texts(form, tmp_path):
    ids = 2**60 + np.arange(600) % 20
    words = pa.array(["no", "yes"]).take(np.arange(600) % 2)
    table = pa.table({"id": pa.array([None, *ids[1:].tolist()]).cast(pa.decimal128(20, 0)),
                      "large": pa.array([decimal.Decimal(2**63 + 1)] * 600, pa.decimal256(40, 0)),
                      "kind": pa.array(ids).cast(pa.decimal128(20, 0)).dictionary_encode(),
                      "word": words.cast(pa.string_view()), "label": np.arange(600) % 2})
    feather.write_feather(table, str(tmp_path / "t.feather"))
    convert(tmp_path / "t.feather", "--out", tmp_path / f"t.{form}")
    path = tmp_path / f"t.{form}"
    read = pd.read_csv(path, dtype=str) if form == "csv" else pd.DataFrame(
        [{name: str(value) for name, value in json.loads(line).items()} for line in path.read_text().splitlines()])
    assert read.id[1:].tolist() == read.kind[1:].tolist() == [str(each) for each in ids[1:]] and pd.isna(read.id[0])
    assert set(read.large) == {str(2**63 + 1)} and read.word.tolist() == words.to_pylist()
    model = dp.train(data=table.select(["id", "label"]), run_dir=tmp_path / "run", settings={"train.epochs": 8})
    assert (model.predict(table) == table["label"].to_numpy()).mean() > 0.95


def test_files_that_cannot_be_converted(tmp_path):
    frame = animals(10)
    frame.to_pickle(tmp_path / "a.pkl")
    assert "--allow-pickle" in convert(tmp_path / "a.pkl", "--out", tmp_path / "a.csv", status=65)
    convert(tmp_path / "a.pkl", "--out", tmp_path / "a.csv", "--allow-pickle")
    assert len(pd.read_csv(tmp_path / "a.csv")) == 10
    parquet.write_table(pa.table({"words": [["a", "b"], ["c"]]}), tmp_path / "lists.parquet")
    message = convert(tmp_path / "lists.parquet", "--out", tmp_path / "l.csv", status=65)
    assert "column `words`" in message and ".jsonl" in message
    assert not (tmp_path / "l.csv").exists() and not (tmp_path / "l.csv.tmp").exists()
    convert(tmp_path / "lists.parquet", "--out", tmp_path / "l.jsonl")
    assert json.loads((tmp_path / "l.jsonl").read_text().splitlines()[0]) == {"words": ["a", "b"]}
    frame.to_parquet(tmp_path / "a.parquet")
    assert "convert them apart" in convert(
        tmp_path / "a.parquet", tmp_path / "lists.parquet", "--out", tmp_path / "x.jsonl", status=65)
    (tmp_path / "t.txt").write_text("hello")
    assert "begins with b'hello'" in convert(tmp_path / "t.txt", "--out", tmp_path / "t.csv", status=65)
    assert "must end in .csv" in convert(tmp_path / "a.parquet", "--out", tmp_path / "t.xls", status=65)
    parquet.write_table(pa.table({"0": [1, 2], "1": [0.5, 1.5]}), tmp_path / "digits.parquet")
    assert "data.header=true" in convert(tmp_path / "digits.parquet", "--out", tmp_path / "digits.csv")
    assert "data.header" not in convert(tmp_path / "digits.parquet", "--out", tmp_path / "digits.jsonl")
    texts = pa.table({"t": ["two\nlines", "one"], "y": [1, 2]})
    parquet.write_table(texts, tmp_path / "texts.parquet")
    assert "data.quoted_newlines=true" in convert(tmp_path / "texts.parquet", "--out", tmp_path / "texts.csv")


def test_values_and_files_that_do_not_fit(tmp_path):
    parquet.write_table(pa.table({"a": [1, 2], "none": pa.nulls(2)}), tmp_path / "none.parquet")
    convert(tmp_path / "none.parquet", "--out", tmp_path / "none.csv")
    assert (tmp_path / "none.csv").read_text().splitlines()[1].startswith("1,")
    parquet.write_table(pa.table({"a": [1.0, float("inf")]}), tmp_path / "inf.parquet")
    message = convert(tmp_path / "inf.parquet", "--out", tmp_path / "inf.jsonl", status=65)
    assert "inf.parquet" in message and "`a` has the value inf" in message
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "number.parquet")
    parquet.write_table(pa.table({"a": ["x"]}), tmp_path / "text.parquet")
    message = convert(tmp_path / "number.parquet", tmp_path / "text.parquet", "--out", tmp_path / "n.csv", status=65)
    assert "text.parquet: column `a`" in message
    binary = pa.table({"t": pa.array([b"\xff"]).dictionary_encode()})
    parquet.write_table(binary, tmp_path / "binary.parquet")
    assert "binary.parquet: column `t`" in convert(
        tmp_path / "binary.parquet", "--out", tmp_path / "b.csv", status=65)
    folder = tmp_path / "folder"
    folder.mkdir()
    parquet.write_table(pa.table({"a": [1], "b": [2]}), folder / "1.parquet")
    parquet.write_table(pa.table({"a": [1]}), folder / "2.parquet")
    assert "2.parquet has no column `b`" in convert(folder, "--out", tmp_path / "f.csv", status=65)
    parquet.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": [1]}), folder / "1.parquet")
    parquet.write_table(pa.table({"a": [1.5], "b": [1]}), folder / "2.parquet")
    stated = r"2.parquet: column `a` is double, but int32 in the first file of the folder"
    with pytest.raises(ValueError, match=stated):
        dp.Model().fit(folder, "b")
    assert re.search(stated, convert(folder, "--out", tmp_path / "f.csv", status=65))
    animals(10).to_pickle(tmp_path / "a.pkl")
    with pytest.raises(ValueError, match="read_pickle") as raised:
        dp.Model().fit(tmp_path / "a.pkl", "kind")
    assert "--allow-pickle" not in str(raised.value)


def test_a_program_names_the_command_that_converts(tmp_path):
    animals(100).to_parquet(tmp_path / "a.parquet")
    done = subprocess.run(
        [sys.executable, "-m", "downpour", "train", str(tmp_path / "a.parquet")], capture_output=True, text=True)
    assert done.returncode == 65 and "is a Parquet file" in done.stderr
    assert "python -m downpour convert" in done.stderr.replace("\n  ", " ")


def test_every_source_of_a_model_gives_the_same_bits(tmp_path):
    frame = animals()
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(arrow, tmp_path / "a.parquet", row_group_size=300)
    wanted = dp.Model(epochs=3).fit(frame.drop(columns="kind"), frame.kind).predict_raw(frame)
    sources = {
        "name": frame, "arrow": arrow, "path": tmp_path / "a.parquet",
        "mapping": {name: frame[name].to_numpy() for name in frame},
        "parts of pandas": (frame[i:i + 500] for i in range(0, len(frame), 500)),
        "parts of mappings": ({name: frame[name][i:i + 600].to_numpy() for name in frame} for i in range(0, 2000, 600)),
        "parts of arrow": iter(arrow.to_batches(max_chunksize=700)),
    }
    for name, source in sources.items():
        model = dp.Model(epochs=3).fit(source, "kind")
        np.testing.assert_array_equal(model.predict_raw(frame), wanted, err_msg=name)
    np.testing.assert_array_equal(model.predict_raw(tmp_path / "a.parquet"), wanted)
    with pytest.raises(ValueError, match="has no column 'sort'"):
        dp.Model().fit(frame, "sort")
    with pytest.raises(ValueError, match="without names"):
        dp.Model().fit(frame[["size"]].to_numpy(), "kind")
    evaluated = dp.Model(epochs=3).fit(frame, "kind", eval_set=(tmp_path / "a.parquet", "kind"))
    assert evaluated.history[0]["eval"]


def test_partial_fit_continues_where_the_last_call_ended():
    frame = animals(6000)
    parts = [frame[i:i + 1000] for i in range(0, 5000, 1000)]
    test = frame[5000:]
    model, errors = dp.Model(learning_rate=0.01), []
    for part in parts:
        model.partial_fit(part, "kind", epochs=2)
        proba = model.predict_proba(test)
        errors.append(-np.log(proba[np.arange(1000), np.searchsorted(model.classes, test.kind)] + 1e-9).mean())
    assert errors[-1] < errors[0] * 0.7, errors
    assert model.classes.tolist() == ["fox", "horse", "mouse"]
    with pytest.raises(ValueError, match="'cat', which is none of the classes"):
        model.partial_fit(test.assign(kind="cat"), "kind")
    with pytest.raises(ValueError, match="had no sample_weight"):
        model.partial_fit(test, "kind", sample_weight=np.ones(1000))


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "adagrad"])
def test_calls_of_partial_fit_give_the_model_of_one_call_with_the_same_batches(optimizer):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6)).astype(np.float32)
    y = (X @ rng.normal(size=6) + rng.normal(size=2000) > 0).astype(int)

    def model():
        same_batches = {"data.shuffle": "off", "data.shard_records": 100_000, "train.batch_size": 100, "model.dropout": 0}
        return dp.Model(settings={**same_batches, "optimizer.type": optimizer})

    once = model().partial_fit(X, y, epochs=3)
    often = model()
    for _ in range(3):
        often = pickle.loads(pickle.dumps(often)).partial_fit(X, y)
    np.testing.assert_allclose(often.predict_proba(X), once.predict_proba(X), atol=1e-5)


def test_partial_fit_of_numbers_weights_and_classes_that_come_later():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (4000, 3)).astype(np.float32)
    model = dp.Model()
    for i in range(0, 4000, 1000):
        model.partial_fit(X[i:i + 1000], X[i:i + 1000, 0] * 3 + 1, sample_weight=np.ones(1000), epochs=5)
    assert np.abs(model.predict(X) - (X[:, 0] * 3 + 1)).mean() < 0.1
    labels = np.where(X[:, 0] > 0.5, "high", np.where(X[:, 0] > 0, "middle", "low"))
    first = labels != "high"
    late = dp.Model().partial_fit(X[first], labels[first], classes=["high", "low", "middle"])
    assert late.predict_proba(X).shape == (4000, 3)
    for _ in range(4):
        late.partial_fit(X, labels, epochs=5)
    assert (late.predict(X) == labels).mean() > 0.95


def answers(rows=2000, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, rows)
    return pd.DataFrame({"x": x, "side": rng.choice(["left", "right"], rows), "answer": np.where(x < 0.7, "wide", "high")})


def test_a_model_of_the_programs_has_its_own_order_of_classes(tmp_path):
    frame = answers()
    model = dp.train(data=frame, run_dir=tmp_path / "run",
                     settings={"model.target": "answer", "train.epochs": 3, "eval.holdout": 0})
    assert model.classes.tolist() == ["wide", "high"]  # the rarer one is last
    ranks = model.importance(frame, "answer")
    assert list(ranks) == ["x", "side"] and ranks["x"] > 0.1
    before = (model.predict(frame) == frame.answer).mean()
    model.settings = {"optimizer.learning_rate": 0.003}
    for _ in range(3):
        model.partial_fit(frame, "answer", epochs=3)
    # Asynchronous training gives some records near the border another class.
    assert (model.predict(frame) == frame.answer).mean() >= max(before - 0.01, 0.95)
    with pytest.raises(ValueError, match="'maybe', which is none of the classes"):
        model.partial_fit(frame.assign(answer="maybe"), "answer")


def test_partial_fit_continues_a_model_of_a_file_with_another_delimiter(tmp_path):
    frame = answers()
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";")
    model = dp.train(data=tmp_path / "a.csv", run_dir=tmp_path / "run", settings={"model.target": "answer", "train.epochs": 1})
    assert (model.partial_fit(frame, "answer", epochs=3).predict(frame) == frame.answer).mean() > 0.9


@pytest.mark.parametrize("keep_best", [False, True])
@pytest.mark.parametrize("own_data", [False, True])
def test_partial_fit_after_a_fit_with_evaluations(keep_best, own_data):
    model = dp.Model(epochs=2, validation_fraction=0 if own_data else 0.2, settings={"eval.keep_best": keep_best})
    model.fit(answers(), "answer", eval_set=(answers(500, seed=2), "answer") if own_data else None)
    for seed in (3, 4):
        model.partial_fit(answers(seed=seed), "answer")
    assert "[eval]\nsource" not in model.description["job"]


def test_partial_fit_with_a_job_and_names_of_columns():
    frame = answers()
    model = dp.Model().fit(frame, "answer", eval_set=None)
    job = model.description["job"].replace('"label"', '"answer"').replace("fields.label", "fields.answer")
    again = dp.Model(job=job).fit(frame, "answer")
    assert again.description["outputs"][0]["target"] == "answer"
    X = frame[["x"]].to_numpy()
    named = dp.Model().partial_fit(X, frame.answer, feature_names=["size"])
    named.partial_fit(X, frame.answer)
    assert {column["name"] for column in named.description["columns"]} == {"size"}
    assert list(named.importance(X, frame.answer)) == ["size"]
    with pytest.raises(ValueError, match="with `classes`"):
        dp.Model().partial_fit(X, ["yes"] * len(X))


def test_the_job_of_a_file_trains_on_data_in_memory(tmp_path):
    frame = answers()
    frame.to_csv(tmp_path / "a.csv", index=False)
    command = [_programs.program("downpour"), "init", "a.csv", "--target", "answer", "-o", "job.toml"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    job = (tmp_path / "job.toml").read_text()
    assert "header = true" in job and 'format = "csv"' in job
    model = dp.Model(job=tmp_path / "job.toml").fit(frame, "answer")
    assert sorted(model.classes) == ["high", "wide"]
    assert 'format = "memory"' in model.description["job"]


def test_the_seed_of_a_job_counts_unless_another_is_given():
    frame = answers()
    job = '[data]\nsource = "-"\n[model]\npreset = "wide_deep"\ntarget = "answer"\n[train]\nepochs = 1\n'
    codes = (frame.answer == "wide").to_numpy().astype(int)

    def seed_of(text, **more):
        job = dp.Model(job=text, **more).fit(frame[["x"]], codes, target="answer").description["job"]
        line = [line for line in job.splitlines() if line.startswith("seed = ")]
        return int(line[0].split("=")[1]) if line else 1

    assert (seed_of(job), seed_of("seed = 7\n" + job), seed_of("seed = 7\n" + job, seed=9)) == (1, 7, 9)


def test_settings_and_the_job_decide_the_processes(tmp_path):
    answers().to_csv(tmp_path / "a.csv", index=False)
    answers(seed=2).to_csv(tmp_path / "b.csv", index=False)
    (tmp_path / "job.toml").write_text(
        '[data]\nsource = "a.csv"\n[cluster]\nworkers = 2\n[model]\npreset = "wide_deep"\ntarget = "answer"\n[train]\nepochs = 1\n')
    seen = []
    note = lambda event: seen.append(event) and None
    model = dp.train(tmp_path / "job.toml", run_dir=tmp_path / "one", callbacks=[note])
    assert "workers = 2" in model.description["job"]
    model = dp.train(tmp_path / "job.toml", workers=2, settings={"cluster.workers": 1}, run_dir=tmp_path / "two")
    assert "workers = 1" in model.description["job"]
    both = dp.train(data=[tmp_path / "a.csv", tmp_path / "b.csv"], run_dir=tmp_path / "three",
                    settings={"model.target": "answer", "train.epochs": 1})
    assert both.summary["accounts"][0]["read"] == 4000


def test_a_model_of_a_table_with_missing_numbers_predicts_lines_of_json(tmp_path):
    frame = answers(2000)
    frame["age"] = np.where(np.arange(2000) % 5 == 0, np.nan, np.arange(2000) % 60 + 0.5)
    model = dp.Model(epochs=2).fit(frame, "answer")
    model.save(tmp_path / "model")
    x = frame.drop(columns="answer").head(50)
    x.to_json(tmp_path / "x.jsonl", orient="records", lines=True)
    subprocess.run([_programs.program("downpour"), "predict", tmp_path / "model", "--data", tmp_path / "x.jsonl", "--quiet",
                    "--out", tmp_path / "p.npy"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy")[:, 0], model.predict_proba(x)[:, 1], atol=1e-6)


def test_a_run_with_data_in_memory_continues(tmp_path):
    frame = answers(3000)
    frame["note"] = "two\nlines"
    calls = dict(data=frame, run_dir=tmp_path / "run", settings={"model.target": "answer", "train.epochs": 40,
                                                                "eval.early_stop.patience": 0})
    first = dp.train(**calls, callbacks=[lambda event: event["event"] in ("epoch", "eval", "progress")])
    assert (tmp_path / "run.data.jsonl").exists()
    done = len(first.summary["accounts"])
    assert done < 40
    last = dp.train(**calls)
    assert last.summary["epochs_sealed"] == 40 and last.summary["accounts"][0]["read"] == 3000
    assert not list(tmp_path.glob("run.data.*"))


def fake_program(monkeypatch, tmp_path, text):
    path = tmp_path / "fake"
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    monkeypatch.setattr(_programs, "program", lambda name: str(path))
    return path


def test_a_long_summary_and_one_signal(monkeypatch, tmp_path):
    path = fake_program(monkeypatch, tmp_path, """
import json, signal, sys, time
signals = []
signal.signal(signal.SIGINT, lambda *_: signals.append(1))
for i in range(20):
    print(json.dumps({"event": "progress"}), file=sys.stderr, flush=True)
    time.sleep(0.02)
print(json.dumps({"signals": len(signals), "text": "x" * 300_000}), flush=True)
print("{}", file=sys.stderr)
""")
    summary = _programs._run([str(path)], [lambda event: True], False)
    assert summary["signals"] == 1 and len(summary["text"]) == 300_000


def test_warnings_of_the_program_are_those_of_python(tmp_path):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"code": np.array(["1", "2", "3", "unknown"])[rng.integers(0, 4, 600)], "label": np.arange(600) % 2})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(UserWarning, match='the column `code` has numbers and "unknown", read as missing') as caught:
        dp.train(data=tmp_path / "t.csv", run_dir=tmp_path / "run", settings={"train.epochs": 1})
    assert caught[0].filename == __file__


def test_infinity_in_a_frame_is_an_error_as_in_fit(tmp_path):
    x = np.arange(600) * 1.0
    for value, row in ((np.inf, 7), (-np.inf, 9), (1e300, 11)):
        frame = pd.DataFrame({"x": np.where(np.arange(600) == row, value, x), "label": np.arange(600) % 2})
        with pytest.raises(ValueError, match=rf"column `x` has the value {re.escape(f'{value:g}')} in row {row}"):
            dp.train(data=frame, run_dir=tmp_path / "run")
        with pytest.raises(ValueError):
            dp.Model().fit(frame, "label")
    assert not (tmp_path / "run").exists() and not list(tmp_path.glob("*.data.*"))


def test_training_with_processes(tmp_path):
    frame = animals(3000)
    events = []
    model = dp.train(data=frame, ps=2, workers=2, run_dir=tmp_path / "run", settings={"model.target": "kind", "train.epochs": 5},
                     callbacks=[lambda event: events.append(event["event"]) and None])
    assert all(account["read"] == account["applied"] + account["filtered"] for account in model.summary["accounts"])
    assert "eval" in events and "start" in events
    assert (model.predict(frame) == frame.kind).mean() > 0.95
    again = dp.train(data=frame, run_dir=tmp_path / "run2", settings={"model.target": "kind", "train.epochs": 5000},
                     callbacks=[lambda event: event["event"] == "eval"])
    assert len(again.summary["accounts"]) < 5000
    with pytest.raises(dp.DownpourError, match="epoch") as raised:
        dp.train(data=frame, run_dir=tmp_path / "run3", settings={"train.epoch": 2})
    assert raised.value.code == 78 and raised.value.hint
    with pytest.raises(ValueError, match="run_dir"):
        dp.train(data=frame)


def test_columns_in_the_names_of_folders(tmp_path):
    frame = animals()
    parquet.write_to_dataset(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "hive", partition_cols=["colour"])
    model = dp.Model(epochs=10).fit(tmp_path / "hive", "kind")
    assert {column["name"] for column in model.description["columns"]} == {"size", "colour"}
    assert (model.predict(frame.drop(columns="kind")) == frame.kind).mean() > 0.95
    import pyarrow.dataset as dataset

    folder = dataset.dataset(tmp_path / "hive", partitioning="hive")
    np.testing.assert_array_equal(model.predict_raw(folder), model.predict_raw(tmp_path / "hive"))
    convert(tmp_path / "hive", "--out", tmp_path / "all.csv")
    assert set(pd.read_csv(tmp_path / "all.csv").columns) == set(frame.columns)


def test_a_complete_run_refuses_other_data(tmp_path):
    frame = animals(500)
    calls = {"run_dir": tmp_path / "run", "settings": {"model.target": "kind", "train.epochs": 2}}
    first = dp.train(data=frame, **calls)
    again = dp.train(data=frame, **calls)
    np.testing.assert_array_equal(again.predict_raw(frame), first.predict_raw(frame))
    other = animals(500, seed=9)
    with pytest.raises(ValueError, match="is complete and was trained with other data; give fresh=True"):
        dp.train(data=other, **calls)
    assert not (tmp_path / "run.data.csv").exists()
    dp.train(data=other, fresh=True, **calls)
    dp.train(data=other, **calls)
    with pytest.raises(TypeError, match="data is a ndarray, but must be"):
        dp.train(data=np.zeros((3, 3)), **calls)


def test_booleans_for_a_model_of_a_file(tmp_path):
    frame = animals(1000)
    frame["grey"] = frame.pop("colour") == "grey"
    frame.to_csv(tmp_path / "train.csv", index=False)
    model = dp.train(data=tmp_path / "train.csv", run_dir=tmp_path / "run",
                     settings={"model.target": "kind", "train.epochs": 5})
    wanted = model.predict_raw(pd.read_csv(tmp_path / "train.csv", dtype={"grey": str}))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    for form in (frame, frame.astype({"grey": "boolean"}), frame.astype({"grey": "bool[pyarrow]"}), table):
        with pytest.warns(UserWarning, match="`grey` has booleans, but the model was trained on texts"):
            np.testing.assert_array_equal(model.predict_raw(form), wanted)


def test_booleans_of_objects_arrays_and_mappings_for_a_model_of_a_file(tmp_path):
    frame = animals(1000)
    frame["grey"] = (frame.pop("colour") == "grey").where(np.arange(1000) % 9 > 0, None)
    frame.to_csv(tmp_path / "train.csv", index=False)
    model = dp.train(data=tmp_path / "train.csv", run_dir=tmp_path / "run",
                     settings={"model.target": "kind", "train.epochs": 5})
    wanted = model.predict_raw(pd.read_csv(tmp_path / "train.csv", dtype={"grey": str}))
    read = pd.read_csv(tmp_path / "train.csv")  # objects, because of the missing values
    full = read.grey.notna().to_numpy()
    x = read[["size", "grey"]]
    mixed = x.assign(grey=x.grey.where(np.arange(1000) != 1, str(x.grey[1])))
    whole = x[full].astype({"grey": bool})
    records = np.rec.fromarrays([whole["size"], whole.grey], names=["size", "grey"])
    mask = np.ma.masked_array(x.grey.fillna(False).to_numpy(bool), ~full)
    for form, rows in [(x, full | True), (mixed, full | True), (x[full], full), (records, full),
                       ({name: whole[name].to_numpy() for name in whole}, full),
                       ({"size": x["size"].to_numpy(), "grey": mask}, full | True)]:
        with pytest.warns(UserWarning, match="`grey` has booleans, but the model was trained on texts"):
            raw = model.predict_raw(form)
        np.testing.assert_array_equal(raw, wanted[rows])


@pytest.mark.parametrize("form", ["csv", "jsonl", "npz", "memory"])
@pytest.mark.parametrize("op", ["standardize", "quantile"])
def test_numbers_with_a_large_offset_are_transformed_as_numpy_does_in_every_format(form, op, tmp_path):
    rng = np.random.default_rng(3)
    x = np.round(1.7e9 + rng.uniform(0, 100, 600), 3)
    y = (x - 1.7e9) / 100 + 0.5
    frame = pd.DataFrame({"x": x, "y": y})
    job = tmp_path / "job.toml"
    job.write_text(f"""
        data.fields = {{ x = {{ transform = ["{op}"] }}, y = {{}} }}
        model.layers = [{{ name = "z", type = "dense", inputs = ["x"], units = [1] }}]
        model.outputs = [{{ name = "z", input = "z", loss = "squared", target = "y" }}]
        optimizer = {{ type = "sgd", learning_rate = 1e-4 }}
        train = {{ epochs = 1, batch_size = 600 }}
    """)
    if form == "memory":
        model = dp.Model(job=job).fit(frame, "y")
    else:
        data = tmp_path / f"d.{form}"
        if form == "npz":
            np.savez(data, x=x, y=y)
        else:
            data.write_text(frame.to_csv(index=False) if form == "csv" else frame.to_json(orient="records", lines=True, double_precision=6))
        header = {"data.header": True} if form == "csv" else {}
        model = dp.train(job, data=[data], run_dir=tmp_path / "run", settings=header)
    # The model is z = a x' + b for the transformed x', so z shows x' but for its place and scale.
    z = model.predict_raw(frame[["x"]])[:, 0].astype(np.float64)
    boundaries = np.quantile(x, np.linspace(0, 1, 65))
    wanted = (x - x.mean()) / x.std() if op == "standardize" else np.interp(x, boundaries, np.linspace(0, 1, 65))
    slope, offset = np.polyfit(wanted, z, 1)
    assert abs(slope) > 1e-3
    assert np.abs((z - offset) / slope - wanted).max() < (1e-6 if op == "standardize" else 0.01)
    assert len(np.unique(z)) > 0.99 * len(np.unique(x))
    if op == "standardize":
        mean, scale = re.search(r"mean = ([-+.e0-9]+), scale = ([-+.e0-9]+)", model.description["job"]).groups()
        assert float(mean) == pytest.approx(x.mean(), abs=1e-4)
        assert float(scale) == pytest.approx(x.std(), rel=1e-6)
