"""Forms of the data: frames of other libraries, parts of mappings, and evaluation data of another form."""

import subprocess

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from downpour import _files
from downpour._programs import program
from downpour.sklearn import DownpourClassifier


def colours(rows=600):
    rng = np.random.default_rng(1)
    x, colour = rng.uniform(-1, 1, rows), rng.choice(["red", "green", "blue", "grey"], rows)
    return pd.DataFrame({"x": x, "colour": colour}), ((x > 0) & np.isin(colour, ["red", "blue"])).astype(int)


def small():
    return dp.Model(epochs=6)


def test_evaluation_data_are_read_as_those_of_predict():
    rng = np.random.default_rng(1)
    flags = rng.random(600) < 0.5
    frame = pd.DataFrame({"flag": np.where(flags, "True", "False"), "size": rng.normal(size=600)})
    losses = lambda history: [line["eval"]["loss"] for line in history]
    wanted = losses(small().fit(frame, flags, eval_set=(frame, flags)).history)
    for form in (frame.assign(flag=flags), pa.Table.from_pandas(frame.assign(flag=flags))):
        with pytest.warns(UserWarning, match="`flag` has booleans, but the model was trained on texts"):
            history = small().fit(frame, flags, eval_set=(form, flags)).history
        assert losses(history) == pytest.approx(wanted, rel=1e-6)
    with pytest.warns(UserWarning, match="X is an array without names"):
        history = small().fit(frame, flags, eval_set=(frame.to_numpy(), flags)).history
    assert losses(history) == pytest.approx(wanted, rel=1e-6)


class OtherFrame:
    """A frame of another library, such as polars, with Arrow's interface."""

    def __init__(self, table):
        self.table, self.columns, self.shape = table, table.schema.names, table.shape

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)

    def __array__(self, dtype=None, copy=None):
        return self.table.to_pandas().to_numpy()

    def __len__(self):
        return len(self.table)


def test_frames_of_other_libraries_keep_their_names(tmp_path):
    frame, y = colours()
    other = lambda columns: OtherFrame(pa.Table.from_pandas(columns, preserve_index=False))
    wanted = small().fit(frame, y).predict_raw(frame)
    model = small().fit(other(frame), y)
    for form in (frame, other(frame), other(frame[["colour", "x"]]), iter([other(frame[:100]), other(frame[100:])])):
        np.testing.assert_array_equal(model.predict_raw(form), wanted)
    model = small().fit(other(frame.assign(label=y)), "label")
    np.testing.assert_array_equal(model.predict_raw(frame), wanted)
    assert set(model.importance(other(frame), y)) == {"x", "colour"}
    trained = dp.train(data=other(frame.assign(label=y)), run_dir=tmp_path / "run", settings={"train.epochs": 1})
    assert {column["name"] for column in trained.description["columns"]} == {"x", "colour"}
    classifier = DownpourClassifier(epochs=6).fit(other(frame), y)
    assert classifier.feature_names_in_.tolist() == ["x", "colour"]
    np.testing.assert_array_equal(classifier.predict_proba(other(frame)), classifier.predict_proba(frame))
    lazy = other(frame)
    lazy.collect = None
    lazy.__class__ = type("LazyFrame", (), {"__module__": "polars.lazyframe"})
    with pytest.raises(ValueError, match=r"X is a LazyFrame of polars, .*X.collect\(\)"):
        small().fit(lazy, y)


def test_parts_of_mappings_need_the_same_columns():
    with pytest.raises(ValueError, match="mappings with other columns: a, and b"):
        small().fit(iter([{"a": [1, 2]}, {"b": [1, 2]}]), [0, 1, 0, 1])


def test_a_missing_column_is_named_once():
    frame, y = colours()
    gaps = frame.assign(x=frame.x.where(np.arange(600) % 5 > 0))  # whether x is missing is a field, too
    model = dp.Model(epochs=1).fit(gaps, y)
    with pytest.raises(dp.DownpourError, match="the data have no column (x, colour|colour, x);") as raised:
        model.predict(pd.DataFrame({"z": gaps.x}))
    assert raised.value.what.count("x") == 1


@pytest.mark.parametrize("column", ["x", "colour"])
def test_a_file_of_one_column_is_read_by_a_model_of_one_column(column, tmp_path):
    frame, y = colours()
    frame = frame[[column]].where(np.arange(600)[:, None] % 7 > 0)
    model = dp.Model(epochs=1).fit(frame, y)
    model.save(tmp_path / "model")
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet.write_table(table, tmp_path / "one.parquet")
    _files.convert([tmp_path / "one.parquet"], tmp_path / "one.csv")
    command = [program("downpour"), "predict", tmp_path / "model", "--data", tmp_path / "one.csv", "--quiet"]
    subprocess.run([*command, "--out", tmp_path / "p.npy"], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "p.npy")[:, 0], model.predict_raw(frame)[:, 0], atol=1e-6)
