"""Columns: exact integers with missing values, decimals, vectors, times, and values that no model can use."""

import datetime
import subprocess
import warnings
from decimal import Decimal

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from downpour._programs import program

ROWS = 1000


def users(kind="int64"):
    """Ids that differ in the last digits of 19; every other one has the label 1."""
    ids = np.random.default_rng(1).integers(0, 50, ROWS)
    return pd.DataFrame({"user_id": pd.array(ids + 2**60, dtype=kind)}), ids % 2


def as_decimals(frame):
    column = [None if value is pd.NA else Decimal(int(value)) for value in frame.user_id.astype(object)]
    return pa.table({"user_id": pa.array(column, pa.decimal128(38, 0))})


@pytest.fixture(scope="module")
def of_users():
    frame, y = users()
    return dp.Model(epochs=10).fit(frame, y)


@pytest.mark.parametrize("kind", ["Int64", "UInt64", "int64[pyarrow]", "uint64[pyarrow]"])
def test_integers_with_missing_values_are_exact(of_users, kind):
    frame, y = users(kind)
    wanted = of_users.predict_raw(frame)
    assert (of_users.predict(frame) == y).mean() == 1
    gap = frame.copy()
    gap.loc[3, "user_id"] = pd.NA
    decimals = as_decimals(gap)
    forms = [
        gap,
        gap.astype(object),
        {"user_id": gap.user_id.astype(object).to_numpy()},
        pa.Table.from_pandas(gap),
        decimals,
        decimals.to_pandas(),
        decimals.to_pandas(types_mapper=pd.ArrowDtype),
    ]
    rest = np.arange(ROWS) != 3
    for form in forms:
        raw = of_users.predict_raw(form)
        np.testing.assert_array_equal(raw[rest], wanted[rest])
        assert raw[3] != wanted[3]
    model = dp.Model(epochs=10).fit(gap, y)
    assert (model.predict(frame) == y).mean() == 1


def test_ids_that_floats_round_are_stated(of_users):
    frame, y = users()
    rounded = frame.astype(float)
    rounded.loc[3, "user_id"] = np.nan  # as pandas.read_csv makes it
    for form in (rounded, pa.Table.from_pandas(rounded), rounded.to_dict("series")):
        with pytest.warns(UserWarning, match="`user_id` has ids above 2\\^53 as floats, which round them"):
            of_users.predict(form)
    with pytest.warns(UserWarning, match="`user_id` has ids above 2"):
        dp.Model(epochs=1).fit(rounded, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        of_users.predict(frame)
        of_users.predict(frame % 2**40 * 1.0)
        dp.Model(epochs=1).fit(pd.DataFrame({"amount": np.random.default_rng(1).normal(size=ROWS) * 1e20}), y)


def test_a_missing_value_of_a_masked_column_equals_nan():
    rng = np.random.default_rng(2)
    x = rng.normal(size=ROWS).round(1)
    gone = rng.random(ROWS) < 0.2
    y = (x > 0) | gone
    model = dp.Model(epochs=5).fit(pd.DataFrame({"x": np.where(gone, np.nan, x)}), y)
    wanted = model.predict_raw(pd.DataFrame({"x": np.where(gone, np.nan, x)}))
    exact = [None if missing else Decimal(str(value)) for value, missing in zip(x, gone)]
    for column in (
        pd.array(x, "Float64"),
        pd.Series(x).astype("double[pyarrow]"),
        pd.Series(x).astype(object),
        pd.Series(exact, dtype=pd.ArrowDtype(pa.decimal128(5, 1))),
        pd.Series(exact, dtype=object),
    ):
        for missing in (pd.NA, None):
            series = pd.Series(column)
            series[gone] = missing
            np.testing.assert_array_equal(model.predict_raw(pd.DataFrame({"x": series})), wanted)
    np.testing.assert_array_equal(model.predict_raw(pa.table({"x": pa.array(exact, pa.decimal128(5, 1))})), wanted)


def test_objects_with_na_and_nat_are_numbers():
    x = np.random.default_rng(1).normal(size=ROWS)
    for missing in (pd.NA, pd.NaT, None, np.nan):
        values = np.array(x, object)
        values[::9] = missing
        model = dp.Model(epochs=1).fit(pd.DataFrame({"x": values, "z": x}), x > 0)
        assert {column["type"] for column in model.description["columns"] if column["field"] == "x"} == {"number"}


def test_booleans_with_missing_values():
    flags = np.random.default_rng(1).random(ROWS) < 0.5
    frame = pd.DataFrame({"flag": pd.array(flags, "boolean")})
    frame.loc[::7, "flag"] = pd.NA
    model = dp.Model(epochs=5).fit(frame, flags)
    assert (model.predict(frame) == flags)[np.arange(ROWS) % 7 > 0].all()
    arrow = frame.astype("bool[pyarrow]")
    np.testing.assert_array_equal(model.predict_raw(arrow), model.predict_raw(frame))


def vectors():
    matrix = np.random.default_rng(1).normal(size=(ROWS, 8))
    side = np.where(np.arange(ROWS) % 3 > 0, "left", "right")
    return matrix, side, (matrix[:, 0] > matrix[:, 1]) & (side == "left")


def test_a_column_of_vectors():
    matrix, side, y = vectors()
    frame = pd.DataFrame({"embedding": list(matrix), "side": side, "n": pd.array(np.arange(ROWS) % 4, "Int64")})
    frame.loc[5, "n"] = pd.NA
    model = dp.Model(epochs=20).fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.93
    assert "shape = [8]" in model.description["job"]
    wanted = model.predict_raw(frame)
    plain = pa.Table.from_pandas(frame, preserve_index=False)
    fixed = plain.set_column(0, "embedding", pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), 8))
    forms = [
        frame.assign(embedding=[list(row) for row in matrix]),
        frame.assign(embedding=[tuple(row) for row in matrix]),
        plain,
        fixed,
        pa.concat_tables([fixed.slice(0, 300), fixed.slice(300)]),
        plain.set_column(1, "side", plain["side"].dictionary_encode()),
        plain.to_pandas(types_mapper=pd.ArrowDtype),
        {"embedding": matrix, "side": side, "n": frame.n.astype(object).to_numpy()},
    ]
    for form in forms:
        np.testing.assert_array_equal(model.predict_raw(form), wanted)


def test_vectors_that_no_model_can_use():
    matrix, _, y = vectors()
    cells = list(matrix)
    cases = [
        ([*cells[:-1], cells[0][:5]], "`v` has 5 numbers in row 999, but 8 in row 0"),
        ([cells[0], None, *cells[2:]], "`v` has vectors, but no vector in row 1"),
        ([*cells[:-1], 3.5], "`v` has vectors, but 3.5 in row 999"),
        ([3.5, *cells[1:]], "`v` has a ndarray in row 1"),
        ([*cells[:-1], np.r_[cells[0][:7], np.nan]], "`v` has a vector with nan in row 999, at place 7"),
        ([["a", "b"]] * ROWS, "`v` has lists of texts; join each to one text"),
        ([[1.0, None]] * ROWS, "`v` has a list with None in row 0"),
        ([[]] * ROWS, "`v` has 0 numbers in row 0"),
        ([{"a": 1}] * ROWS, "`v` has a dict in row 0"),
    ]
    for column, text in cases:
        series = pd.Series(column, dtype=object)
        with pytest.raises(ValueError, match=text):
            dp.Model(epochs=1).fit(pd.DataFrame({"v": series, "x": matrix[:, 0]}), y)
    ragged = pa.array([*map(list, cells[:-1]), [1.0]])
    for column, text in (
        (ragged, "`v` has 1 numbers in row 999"),
        (pa.array([["a"]] * ROWS), "`v` has lists of texts"),
        (pa.array([None, *map(list, cells[1:])]), "`v` has vectors, but no vector in row 0"),
        (pa.array([*map(list, cells[:-1]), [*cells[0][:7], None]]), "`v` has a vector with nan in row 999, at place 7"),
    ):
        with pytest.raises(ValueError, match=text):
            dp.Model(epochs=1).fit(pa.table({"v": column}), y)
    assert dp.Model(epochs=1).fit(pa.table({"v": list(map(list, cells))}), y).predict(pa.table({"v": cells[:1]})).shape == (1,)


def test_times_of_every_type_are_left_out_with_a_warning():
    x = np.arange(ROWS, dtype=float)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(days=i % 900) for i in range(ROWS)]
    for column in (
        pd.period_range("2000-01", periods=ROWS, freq="M"),
        pd.Series(days, dtype=object),
        pd.Series(days).astype("date32[pyarrow]"),
        pd.Series([datetime.time(i % 24) for i in range(ROWS)], dtype=object),
        pd.to_timedelta(x, unit="h"),
    ):
        with pytest.warns(UserWarning, match="`when` has times, which a model can't use") as caught:
            model = dp.Model(epochs=1).fit(pd.DataFrame({"when": column, "x": x}), x > 500)
        assert caught[0].filename == __file__
        assert {each["name"] for each in model.description["columns"]} == {"x"}
    with pytest.warns(UserWarning, match="`when` has times"):
        dp.Model(epochs=1).fit({"when": np.array(days, "datetime64[D]"), "x": x}, x > 500)
    for kind in (pa.timestamp("us"), pa.date32(), pa.duration("s")):
        table = pa.table({"when": pa.array(range(ROWS), pa.int32() if kind == pa.date32() else pa.int64()).cast(kind), "x": x})
        with pytest.warns(UserWarning, match="`when` has times"):
            model = dp.Model(epochs=1).fit(table, x > 500)
        assert {each["name"] for each in model.description["columns"]} == {"x"}


def test_bytes_are_the_texts_that_they_encode():
    words = np.array(["no", "yes"])[np.arange(ROWS) % 2]
    frame = pd.DataFrame({"word": words})
    model = dp.Model(epochs=2).fit(frame, words)
    encoded = pd.DataFrame({"word": pd.Series([word.encode() for word in words], dtype=object)})
    for form in (encoded, {"word": words.astype("S")}):
        np.testing.assert_array_equal(model.predict_raw(form), model.predict_raw(frame))


def test_values_beyond_float32_name_the_column_and_the_row():
    x = np.random.default_rng(1).normal(size=ROWS)
    large = x.copy()
    large[7] = -1e42
    model = dp.Model(epochs=1).fit(pd.DataFrame({"t": x, "z": x}), x > 0)
    for form in (
        pd.DataFrame({"t": large, "z": x}),
        pa.table({"t": large, "z": x}),
        {"t": large.astype(object), "z": x},
        pd.DataFrame({"t": pd.array(large, "Float64"), "z": x}),
    ):
        for use in (model.predict, lambda X: dp.Model(epochs=1).fit(X, x > 0)):
            with pytest.raises(ValueError, match=r"column `t` has the value -1e\+42 in row 7, but numbers must be within 3.4e\+38"):
                use(form)
    with pytest.raises(ValueError, match=r"column `x` has the value 1e\+40 in row 0"):
        dp.Model(epochs=1).fit(np.full((ROWS, 300), 1e40), x > 0)


def test_columns_of_arrow_without_values_and_views_of_texts():
    words = np.array(["no", "yes"])[np.arange(ROWS) % 2]
    table = pa.table({"word": words, "nothing": pa.nulls(ROWS)})
    model = dp.Model(epochs=2).fit(table, words)
    views = pa.table({"word": pa.array(words.tolist(), pa.string_view()), "nothing": np.full(ROWS, np.nan)})
    np.testing.assert_array_equal(model.predict_raw(views), model.predict_raw(table))


def test_masked_values_are_missing():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 2))
    gone = rng.random((ROWS, 2)) < 0.3
    y = x[:, 0] > 0
    model = dp.Model(epochs=5).fit(np.where(gone, np.nan, x), y)
    masked = np.ma.masked_array(np.where(gone, 99.0, x), gone)
    wanted = model.predict_raw(np.where(gone, np.nan, x))
    np.testing.assert_array_equal(model.predict_raw(masked), wanted)
    np.testing.assert_array_equal(model.predict_raw({"x0": masked[:, 0], "x1": masked[:, 1]}), wanted)
    np.testing.assert_array_equal(model.predict_raw(iter([masked[:300], masked[300:]])), wanted)
    counts = pd.DataFrame({"n": pd.array(np.arange(ROWS) % 7, "Int64")})
    counts[gone[:, 0]] = pd.NA
    integers = np.ma.masked_array(np.arange(ROWS) % 7, gone[:, 0])
    of_counts = dp.Model(epochs=2).fit(counts, np.arange(ROWS) % 7 > 3)
    np.testing.assert_array_equal(of_counts.predict_raw({"n": integers}), of_counts.predict_raw(counts))
    with pytest.raises(ValueError, match="missing labels"):
        dp.Model(epochs=1).fit(x, integers)


def test_several_values_of_a_place_in_a_sparse_matrix_are_summed():
    rng = np.random.default_rng(1)
    rows, columns = np.repeat(np.arange(ROWS), 4), rng.integers(0, 5, 4 * ROWS)
    plain = scipy.sparse.coo_matrix((np.ones(4 * ROWS), (rows, columns)), (ROWS, 5)).tocsr()
    model = dp.Model(epochs=2).fit(plain, plain[:, [0]].toarray().ravel() > 0)
    repeated = scipy.sparse.csr_matrix((np.ones(4 * ROWS), columns, 4 * np.arange(ROWS + 1)), (ROWS, 5))
    assert repeated.nnz > plain.nnz
    np.testing.assert_array_equal(model.predict_raw(repeated), model.predict_raw(plain))
    assert repeated.nnz == 4 * ROWS


def test_codes_of_a_csv_file_are_read_as_texts(tmp_path):
    codes = np.random.default_rng(1).integers(0, 7, 2000)
    labels = np.isin(codes, [1, 4, 5]).astype(int)
    lines = "".join(f"{code:03},{label}\n" for code, label in zip(codes, labels))
    (tmp_path / "codes.csv").write_text("code,label\n" + lines)
    run = [program("downpour"), "train", "codes.csv", "--quiet", "--epochs", "5"]
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([program("downpour"), "predict", "runs/codes", "--data", "codes.csv", "--out", "p.csv"], cwd=tmp_path,
                   check=True, capture_output=True)
    wanted = np.loadtxt(tmp_path / "p.csv", delimiter=",", ndmin=2)[:, 0]
    model = dp.Model.load(tmp_path / "runs/codes")
    frame = pd.read_csv(tmp_path / "codes.csv", dtype={"code": str})
    for form in (frame[["code"]], frame[["code"]].astype("category"), pa.table(frame[["code"]])):
        np.testing.assert_allclose(model.predict_proba(form)[:, 1], wanted, rtol=0, atol=1e-6)


def test_structured_arrays_and_lists_of_paths():
    x = np.random.default_rng(1).normal(size=ROWS)
    records = np.rec.fromarrays([x, np.where(x > 0, "a", "b")], names=["x", "side"])
    model = dp.Model(epochs=1).fit(records, x > 0)
    assert {column["name"] for column in model.description["columns"]} == {"x", "side"}
    named = dp.Model(epochs=1).fit(records, "side")
    assert {column["name"] for column in named.description["columns"]} == {"x"}
    assert named.classes.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="X is a list of 2 paths"):
        model.predict(["a.parquet", "b.parquet"])
    with pytest.raises(ValueError, match="two columns are named 'x'"):
        model.predict(pa.Table.from_arrays([pa.array(x), pa.array(x)], names=["x", "x"]))


def test_the_words_of_texts_count_as_in_a_csv_file(tmp_path):
    rng = np.random.default_rng(1)
    words = np.array("the a film plot actor scene of and with this".split())
    y = np.arange(600) % 2
    rows = [" ".join([*rng.choice(words, 6), "great" if label else "awful", *rng.choice(words, 4)]) for label in y]
    frame = pd.DataFrame({"review": rows, "liked": y})
    model = dp.Model(epochs=3).fit(frame[["review"]][:400], y[:400])
    assert (model.predict(frame[["review"]][400:]) == y[400:]).mean() > 0.95
    frame[:400].to_csv(tmp_path / "reviews.csv", index=False)
    command = [program("downpour"), "train", "reviews.csv", "--target", "liked", "--epochs", "3", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    frame[400:].to_csv(tmp_path / "test.csv", index=False)
    command = [program("downpour"), "predict", "runs/reviews", "--data", "test.csv", "--quiet"]
    lines = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split()
    predicted = dp.Model.load(tmp_path / "runs/reviews").predict_proba(frame[["review"]][400:])[:, 1]
    assert predicted == pytest.approx(np.array(lines, float), abs=1e-5)


@pytest.mark.parametrize("kinds", [[3, 7, 11], [True, False, True]])
def test_categories_of_other_values_are_those_of_their_texts(kinds):
    codes = np.random.default_rng(1).integers(0, 3, 600)
    frame = pd.DataFrame({"kind": pd.Categorical(np.array(kinds)[codes])})
    y = np.array(kinds)[codes] == kinds[0]
    model = dp.Model(epochs=3).fit(frame, y)
    assert (model.predict(frame) == y).all()
    assert (model.predict(pa.Table.from_pandas(frame)) == y).all()
    assert (dp.Model(epochs=3).fit(pa.Table.from_pandas(frame), y).predict(frame) == y).all()
    if kinds[0] is True:
        with pytest.warns(UserWarning, match="`kind` has booleans, but the model was trained on texts"):
            assert (model.predict(frame.astype(bool)) == y).all()


def test_categories_of_decimals_are_those_of_their_numbers():
    quarters = np.random.default_rng(1).integers(4, 17, 600) / 4
    y = quarters * 4 % 2 > 0
    dictionary = pa.array([Decimal(value) for value in quarters], pa.decimal128(22, 3)).dictionary_encode()
    texts = pa.table({"n": [f"{value:g}" for value in quarters]})
    model = dp.Model(epochs=3).fit(texts, y)
    for form in (pa.table({"n": dictionary}), pd.DataFrame({"n": dictionary.to_pandas()}),
                 {"n": np.array(["x", *dictionary.to_pylist()], object)}):
        raw = model.predict_raw(form)
        np.testing.assert_array_equal(raw[-600:], model.predict_raw(texts))


def test_texts_of_digits_stay_texts(tmp_path):
    codes = np.random.default_rng(1).integers(0, 40, 1200)
    frame = pd.DataFrame({"code": [f"{code:05}" for code in codes], "bought": codes % 2})
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings={"model.target": "bought", "train.epochs": 3})
    assert model.description["columns"][0]["type"] == "text"
    assert (model.predict(frame[["code"]]) == codes % 2).all()


def test_columns_of_a_frame_in_processes_are_those_of_fit(tmp_path):
    """Texts of which some are numbers, and categories of numbers and booleans."""
    codes = np.random.default_rng(1).integers(0, 4, 1200)
    frame = pd.DataFrame({
        "code": np.array(["1", "2", "3", "unknown"])[codes],
        "level": pd.Categorical(np.array([0, 1000, 2000, 3000])[codes]),
        "share": pd.Categorical(np.array([0.5, 1.0, 2.5, 1e-5])[codes]),
        "odd": pd.Categorical(codes % 2 == 1),
        "bought": codes % 2})
    for name in ("code", "level", "share", "odd"):
        part = frame[[name, "bought"]]
        model = dp.train(data=part, run_dir=tmp_path / name, settings={"model.target": "bought", "train.epochs": 8})
        assert {column["type"] for column in model.description["columns"]} == {"text"}
        assert (model.predict(part) == codes % 2).all()
        assert model.description["columns"] == dp.Model(epochs=1).fit(part, "bought").description["columns"]


@pytest.mark.parametrize("texts", [[" a", "a", "a ", "b"], ["DE", "US", "NA", "?"], ["1", "2", "NA", "?"]])
def test_texts_of_a_frame_in_processes_are_not_changed(texts, tmp_path):
    codes = np.random.default_rng(1).integers(0, 4, 1200)
    frame = pd.DataFrame({"code": np.array(texts)[codes], "bought": codes % 2})
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings={"model.target": "bought", "train.epochs": 8})
    assert (model.predict(frame) == codes % 2).all()
    values = model.predict_raw(pd.DataFrame({"code": [*texts, None]}))
    assert len(np.unique(values)) == 5  # none of them is missing, or another one


def test_frames_with_lists_and_with_durations_in_processes(tmp_path):
    matrix, _, _ = vectors()
    y = matrix[:, 0] > 0
    frame = pd.DataFrame({"v": list(matrix), "label": y.astype(int)})
    settings = {"train.epochs": 8}
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings=settings)
    assert (model.predict(frame[["v"]]) == y).mean() > 0.9
    durations = pd.DataFrame({"took": pd.to_timedelta(np.arange(ROWS), unit="s"), "label": y.astype(int)})
    with pytest.raises(ValueError, match="`took` has the type duration.*dt.total_seconds()") as raised:
        dp.train(data=durations, run_dir=tmp_path / "no", settings=settings)
    assert "list" not in str(raised.value)


@pytest.mark.parametrize("names", [[0, 1, 2], ["0", "1", "2"]])
def test_names_that_are_numbers_are_no_record(names, tmp_path):
    x = np.random.default_rng(1).normal(size=(600, 2))
    y = (x[:, 0] > 0).astype(int)
    frame = pd.DataFrame(np.c_[x, y], columns=names)
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings={"train.epochs": 3})
    assert model.summary["accounts"][0]["read"] == 600 and model.classes.tolist() == [0, 1]
    assert (model.predict(frame.drop(columns=names[2])) == y).mean() > 0.9
    if names[0] == 0:
        assert {column["name"] for column in model.description["columns"]} == {"x0", "x1"}
        np.testing.assert_array_equal(model.predict_raw(x), model.predict_raw(frame))
