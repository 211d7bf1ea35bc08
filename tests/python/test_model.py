"""Model: every kind of data, determinism, storing, callbacks and errors."""

import os
import pathlib
import pickle
import subprocess
import sys
from decimal import Decimal

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse


def colours(rows=3000, seed=1):
    """A number and a category; the label is 1 if the number is positive and the category is red or blue."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, rows)
    colour = rng.choice(["red", "green", "blue", "grey"], rows)
    y = ((x > 0) & np.isin(colour, ["red", "blue"])).astype(int)
    return pd.DataFrame({"x": x, "colour": colour}), y


def small(epochs=6, **more):
    return dp.Model(epochs=epochs, **more)


@pytest.fixture(scope="module")
def trained():
    frame, y = colours()
    return small().fit(frame, y)


def test_frame_with_texts(trained):
    frame, y = colours(1000, seed=2)
    assert (trained.predict(frame) == y).mean() > 0.97
    probabilities = trained.predict_proba(frame)
    assert probabilities.shape == (1000, 2)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-6)
    assert {column["name"] for column in trained.description["columns"]} == {"x", "colour"}
    assert len(trained.history) == 6


def test_every_form_of_a_table_gives_the_same_predictions(trained):
    frame, _ = colours(500, seed=3)
    wanted = trained.predict_raw(frame)
    as_category = frame.assign(colour=frame.colour.astype("category"))
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    encoded = arrow.set_column(1, "colour", arrow["colour"].dictionary_encode())
    chunked = pa.concat_tables([arrow.slice(0, 100), arrow.slice(100)])
    sliced = pa.concat_tables([arrow, arrow]).combine_chunks().slice(500)
    mapping = {"colour": frame.colour.to_numpy(), "x": frame.x.to_numpy()}
    strings = frame.assign(colour=frame.colour.astype("string"))
    for form in (as_category, arrow, encoded, chunked, sliced, arrow.to_batches()[0], mapping, strings, frame[::-1][::-1]):
        np.testing.assert_array_equal(trained.predict_raw(form), wanted)


def test_missing_values(trained):
    frame = pd.DataFrame({"x": [np.nan, 0.5], "colour": [None, "violet"]})
    arrow = pa.table({"x": pa.array([None, 0.5]), "colour": pa.array([None, "violet"])})
    np.testing.assert_array_equal(trained.predict_raw(arrow), trained.predict_raw(frame))


def test_columns_of_pandas_with_missing_values():
    frame, y = colours(2000)
    frame["count"] = pd.array(np.where(frame.x > 0, 3, 5), "Int64")
    frame.loc[::7, "count"] = pd.NA
    frame["flag"] = pd.array(frame.x > 0.5, "boolean")
    frame["when"] = pd.Timestamp("2026-01-01")
    with pytest.warns(UserWarning, match="`when` has times"):
        model = small().fit(frame, y)
    assert {column["name"] for column in model.description["columns"]} == {"x", "colour", "count", "flag"}


def test_decimals_are_numbers():
    frame, y = colours(500)
    exact = frame.assign(x=[Decimal(str(x)) for x in frame.x.round(3)])
    exact.loc[0, "x"] = None
    rounded = frame.assign(x=frame.x.round(3))
    rounded.loc[0, "x"] = np.nan
    models = [dp.Model(epochs=2).fit(X, y) for X in (exact, rounded)]
    np.testing.assert_array_equal(models[0].predict_proba(exact), models[1].predict_proba(rounded))
    with pytest.warns(UserWarning, match="`x` has the numbers .* as texts"):
        dp.Model(epochs=1).fit(frame.assign(x=frame.x.astype(str)), y)


def test_missing_numbers_are_a_feature():
    """Whether x is missing decides the label; its median says nothing."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=4000)
    gone = rng.random(4000) < 0.4
    y = (gone ^ (rng.random(4000) < 0.05)).astype(int)
    frame = pd.DataFrame({"x": np.where(gone, np.nan, x), "z": rng.normal(size=4000)})
    model = small().fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.93
    assert {column["name"] for column in model.description["columns"]} == {"x", "z"}
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    np.testing.assert_array_equal(model.predict_raw(arrow), model.predict_raw(frame))


def test_hinge_has_margins_and_no_probabilities():
    frame, y = colours()
    model = small(12, settings={"model.loss": "hinge"}).fit(frame, np.array(["no", "yes"])[y])
    margins = model.predict_raw(frame)
    assert margins.min() < -0.5 and margins.max() > 0.5
    predicted = model.predict(frame)
    np.testing.assert_array_equal(predicted == "yes", margins[:, 0] >= 0)
    assert (predicted == np.array(["no", "yes"])[y]).mean() > 0.95
    assert model.description["outputs"][0]["prediction"] == "margin"
    with pytest.raises(RuntimeError, match="margins and no probabilities"):
        model.predict_proba(frame)
    rises = model.importance(frame, np.array(["no", "yes"])[y], repeats=1)
    assert min(rises.values()) > 0.1
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(frame), predicted)
    numbers = small(12, settings={"model.loss": "hinge"}).fit(frame, y)  # 0 and 1
    np.testing.assert_array_equal(numbers.predict(frame), (predicted == "yes").astype(int))
    with pytest.raises(RuntimeError, match="margins and no probabilities"):
        numbers.predict_proba(frame)


def test_array_of_numbers_is_not_copied_by_column():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 5)).astype(np.float32)
    y = X[:, 0] * 2 - X[:, 3] + 1
    model = small(epochs=20).fit(X, y)
    for form in (X, np.asfortranarray(X), X.astype(np.float64), np.repeat(X, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(model.predict_raw(form), model.predict_raw(X))
    error = np.sqrt(((model.predict(X) - y) ** 2).mean())
    assert error < 0.25 * y.std()
    with pytest.raises(ValueError, match="X has 4 columns, but the model was trained on 5"):
        model.predict(X[:, :4])


def test_wide_array():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (2000, 400)).astype(np.uint8)
    model = small(epochs=30).fit(X, X[:, 7])
    assert (model.predict(X) == X[:, 7]).mean() > 0.95


def test_sparse_matrix():
    rng = np.random.default_rng(1)
    X = scipy.sparse.random(3000, 1000, density=0.02, random_state=rng, format="csr")
    X.data[:] = 1
    y = np.asarray(X[:, :300].sum(axis=1)).ravel() > np.asarray(X[:, 300:600].sum(axis=1)).ravel()
    model = small(epochs=10).fit(X, y)
    assert (model.predict(X.tocoo()) == y).mean() > 0.9
    assert model.predict(scipy.sparse.csr_matrix((2, 1000))).shape == (2,)


def test_labels_of_any_type():
    frame, y = colours(2000)
    names = np.array(["no", "yes"])
    model = small().fit(frame, names[y])
    assert list(model.classes) == ["no", "yes"]
    assert set(model.predict(frame)) == {"no", "yes"}
    three = np.select([frame.x < -0.3, frame.x < 0.3], ["low", "middle"], "high")
    model = small(epochs=15).fit(frame, three)
    assert list(model.classes) == ["high", "low", "middle"]
    assert model.predict_proba(frame).shape == (2000, 3)
    assert (model.predict(frame) == three).mean() > 0.95
    booleans = small().fit(frame, frame.x > 0)
    assert booleans.predict(frame).dtype == bool


def test_sample_weight_counts():
    frame, y = colours(2000)
    ignored = y.copy()
    ignored[:1000] = 1 - ignored[:1000]
    model = small(epochs=10).fit(frame, ignored, sample_weight=np.r_[np.zeros(1000), np.ones(1000)])
    assert (model.predict(frame) == y).mean() > 0.95


def test_threads_change_no_bit():
    frame, y = colours(20000)
    one = small(n_jobs=1).fit(frame, y).predict_raw(frame)
    np.testing.assert_array_equal(small(n_jobs=2).fit(frame, y).predict_raw(frame), one)
    assert (small(seed=2).fit(frame, y).predict_raw(frame) != one).any()


def test_evaluation_data_stop_the_training():
    frame, y = colours(3000)
    held_out, held_out_y = colours(1000, seed=9)
    model = dp.Model(epochs=500).fit(frame, y, eval_set=(held_out, held_out_y))
    assert len(model.history) < 500
    assert "auc" in model.history[0]["eval"]
    listed = dp.Model(epochs=500).fit(frame, y, eval_set=[(held_out, held_out_y)])
    assert [epoch["eval"] for epoch in listed.history] == [epoch["eval"] for epoch in model.history]
    with pytest.raises(ValueError, match="eval_set is a list of 2"):
        dp.Model().fit(frame, y, eval_set=[(held_out, held_out_y)] * 2)
    with pytest.raises(ValueError, match="'maybe', which is none of the classes"):
        dp.Model().fit(frame, np.array(["no", "yes"])[y], eval_set=(held_out, ["maybe"] * 1000))


def test_callbacks_see_every_epoch_and_can_stop():
    frame, y = colours()
    epochs = []
    small().fit(frame, y, callbacks=[lambda progress: epochs.extend(line["epoch"] for line in progress["history"])])
    assert epochs == [1, 2, 3, 4, 5, 6]
    frame, y = colours(50000)
    stopped = dp.Model(epochs=1000).fit(frame, y, callbacks=[lambda progress: progress["records"] > 0])
    assert stopped.description["stopped"]
    with pytest.raises(ZeroDivisionError):
        dp.Model(epochs=1000).fit(frame, y, callbacks=[lambda progress: 1 / 0])


def test_storing(trained, tmp_path):
    frame, _ = colours(500, seed=3)
    wanted = trained.predict_raw(frame)
    trained.save(tmp_path / "run")
    for again in (
        dp.Model.load(tmp_path / "run"),
        dp.Model.from_bytes(trained.to_bytes()),
        pickle.loads(pickle.dumps(trained)),
    ):
        np.testing.assert_array_equal(again.predict_raw(frame), wanted)
        assert list(again.classes) == [0, 1]
        assert again.description["warnings"] == [] and again.description["reason"] == ""
    with pytest.raises(dp.DownpourError, match="has a run already"):
        trained.save(tmp_path / "run")
    assert pickle.loads(pickle.dumps(dp.Model(epochs=3))).epochs == 3


def test_the_programs_read_a_saved_model(trained, tmp_path):
    program = pathlib.Path(os.environ["DOWNPOUR_LIBRARY"]).parent.parent / "bin" / "downpour"
    frame, _ = colours(500, seed=3)
    trained.save(tmp_path / "run")
    frame.to_csv(tmp_path / "new.csv", index=False)
    command = [program, "predict", tmp_path / "run", "--data", tmp_path / "new.csv", "--quiet"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    np.testing.assert_allclose(np.array(lines, float), trained.predict_raw(frame)[:, 0], atol=1e-5)


def test_the_package_reads_a_run_of_the_programs(tmp_path):
    program = pathlib.Path(os.environ["DOWNPOUR_LIBRARY"]).parent.parent / "bin" / "downpour"
    frame, y = colours(2000)
    frame.assign(label=np.array(["no", "yes"])[y]).to_csv(tmp_path / "train.csv", index=False)
    subprocess.run([program, "train", "train.csv", "--quiet", "--epochs", "3"], check=True, cwd=tmp_path, capture_output=True)
    model = dp.Model.load(tmp_path / "runs" / "train")
    assert list(model.classes) == ["no", "yes"]
    lines = subprocess.run([program, "predict", "runs/train", "--data", "train.csv", "--quiet"], check=True,
                           cwd=tmp_path, capture_output=True, text=True).stdout.split()
    np.testing.assert_allclose(np.array(lines, float), model.predict_raw(frame)[:, 0], atol=1e-5)


def test_job_and_settings():
    frame, y = colours(2000)
    model = small(settings={"train.batch_size": 64}).fit(frame, y)
    assert "batch_size = 64" in model.description["job"]
    with pytest.raises(dp.DownpourError, match="epochs") as caught:
        small(settings={"train.epoch": 3}).fit(frame, y)
    assert caught.value.code == 78
    assert pickle.loads(pickle.dumps(caught.value)).id == caught.value.id


def test_errors():
    frame, y = colours(100)
    with pytest.raises(ValueError, match="100 rows"):
        dp.Model().fit(frame, y[:50])
    with pytest.raises(ValueError, match="same label"):
        dp.Model(task="binary").fit(frame, np.zeros(100))
    with pytest.raises(RuntimeError, match="not trained"):
        dp.Model().predict(frame)
    with pytest.raises(ValueError, match="one-dimensional"):
        dp.Model().fit(np.zeros(100), y)
    with pytest.raises(dp.DownpourError, match="not supported"):
        dp.Model().fit(pa.table({"t": pa.array([{"a": 1}] * 100), "x": frame.x}), y)
    with pytest.raises(ValueError, match="row 7 is NaN"):
        dp.Model(task="regression").fit(frame, np.r_[np.ones(7), np.nan, np.ones(92)])
    with pytest.raises(ValueError, match="same label"):
        dp.Model().fit(frame, np.ones(100))
    with pytest.raises(dp.DownpourError):
        dp.Model.from_bytes(b"nonsense")


def test_a_fork_is_refused():
    code = """
import os, sys
import numpy as np, downpour as dp
X = np.random.default_rng(1).normal(size=(500, 2)); y = X[:, 0] > 0
model = dp.Model(epochs=1).fit(X, y)
child = os.fork()
if child == 0:
    try:
        model.predict(X)
    except RuntimeError as error:
        os._exit(0 if "spawn" in str(error) else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_ctrl_c_ends_the_training():
    code = """
import os, signal, threading
import numpy as np, downpour as dp
X = np.random.default_rng(1).normal(size=(20000, 4)); y = X[:, 0] > 0
threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    dp.Model(epochs=100000).fit(X, y)
except KeyboardInterrupt:
    os._exit(0)
os._exit(1)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_labels_of_minus_one_and_one():
    frame, y = colours(2000)
    model = small().fit(frame, 2 * y - 1)
    assert list(model.classes) == [-1, 1]
    assert (model.predict(frame) == 2 * y - 1).mean() > 0.9


def test_presets_take_losses_that_suit_them():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (1000, 300)).astype(np.uint8)
    three = X[:, 0].astype(int) + X[:, 1]
    assert (dp.Model(epochs=30).fit(X, np.array(["a", "b", "c"])[three]).predict_proba(X).shape) == (1000, 3)
    frame, y = colours(1000)
    assert dp.Model("logistic_regression", epochs=5).fit(frame, y == 1).predict(frame).dtype == bool
    with pytest.raises(dp.DownpourError, match="use linear_regression"):
        dp.Model("logistic_regression", task="regression").fit(frame, frame.x)


def test_wide_arrays_of_any_scale():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 260)) * 1000
    y = X[:, 0] > 0
    assert (dp.Model(epochs=20).fit(X, y).predict(X) == y).mean() > 0.9
    X[7, 3] = np.nan
    with pytest.raises(ValueError, match="row 7, column 3"):
        dp.Model().fit(X, y)


def test_a_failed_fit_leaves_the_model_as_it_was():
    X = np.random.default_rng(1).normal(size=(300, 2))
    model = dp.Model(epochs=1).fit(X, X[:, 0], feature_names=["p", "q"])
    wanted = model.predict(X)
    with pytest.raises(ValueError, match="is NaN"):
        model.fit(X, np.full(300, np.nan))
    np.testing.assert_array_equal(model.predict(X), wanted)


def test_settings_decide_before_defaults():
    frame, y = colours(1000)
    by_settings = dp.Model(settings={"train.epochs": 12, "train.batch_size": 64}).fit(frame, y)
    by_arguments = dp.Model(epochs=12, batch_size=64).fit(frame, y)
    np.testing.assert_array_equal(by_settings.predict_raw(frame), by_arguments.predict_raw(frame))
    held_out = dp.Model(settings={"eval.holdout": 0.2}).fit(frame, y)
    assert "schedule" not in held_out.description["job"] or "cosine" not in held_out.description["job"]


def test_weights_with_evaluation_data():
    frame, y = colours(1000)
    model = small().fit(frame, y, sample_weight=np.ones(1000), eval_set=colours(500, seed=5))
    assert "auc" in model.history[0]["eval"]
    for bad in (np.full(1000, -1.0), np.full(1000, np.nan)):
        with pytest.raises(ValueError, match="row 0"):
            small().fit(frame, y, sample_weight=bad)


def test_a_sorted_table_is_sampled_everywhere():
    rows = 19000
    x = np.arange(rows) / rows
    model = dp.Model(epochs=2).fit(x.reshape(-1, 1), (x * 5).astype(int))
    assert list(model.classes) == [0, 1, 2, 3, 4]


def test_odd_data():
    frame, y = colours(300)
    assert dp.Model(epochs=2).fit(frame, y).predict(frame[:0]).shape == (0,)
    cases = [
        (pd.concat([frame, frame[["x"]]], axis=1), y, "two columns are named 'x'"),
        (frame.x, y, "X is a series"),
        (frame, np.array(["a", None] * 150, object), "missing labels"),
        (np.zeros((300, 2)), np.where(y, 1.0, np.nan), "NaN|row"),
        (scipy.sparse.csr_matrix(np.full((300, 1), np.nan)), y, "NaN or infinite"),
    ]
    for X, labels, text in cases:
        with pytest.raises(ValueError, match=text):
            dp.Model(epochs=1).fit(X, labels)
    with pytest.raises(ValueError, match="1 names, but X has 2 columns"):
        dp.Model().fit(np.zeros((300, 2)), y, feature_names=["a"])
    with pytest.raises(RuntimeError, match="not trained"):
        dp.Model().to_bytes()
    with pytest.raises(ValueError, match="'label', which is the target"):
        dp.Model(job="[data]").fit(frame.assign(label=y), y)


def test_an_array_after_a_table_goes_by_position(tmp_path):
    frame, y = colours(500)
    frame.insert(0, "when", pd.Timestamp("2026-01-01"))
    with pytest.warns(UserWarning, match="`when` has times"):
        model = small().fit(frame, y)
    wanted = model.predict_raw(frame[["colour", "x"]])
    model.save(tmp_path / "run")
    for again in (model, pickle.loads(pickle.dumps(model)), dp.Model.load(tmp_path / "run")):
        with pytest.warns(UserWarning, match="X is an array without names, but the model was trained on a table"):
            np.testing.assert_array_equal(again.predict_raw(frame.to_numpy()), wanted)
    with pytest.raises(ValueError, match="X has 2 columns, but the model was trained on 3"):
        model.predict(frame[["x", "colour"]].to_numpy())


def clicks(rows, seed, users=1000):
    """Clicks that depend on the user, the item and two more columns; the best constant has a log loss of about .65."""
    rng, known = np.random.default_rng(seed), np.random.default_rng(0)
    taste, appeal = known.normal(0, 0.8, users), known.normal(0, 0.8, 300)
    user, item = rng.zipf(1.3, rows) % users, rng.zipf(1.3, rows) % 300
    price = rng.lognormal(3, 0.8, rows)
    logit = taste[user] + appeal[item] - 0.7 - 0.3 * (np.log(price) - 3)
    frame = pd.DataFrame({"user_id": user, "item": [f"i{k}" for k in item], "price": price, "hour": rng.integers(0, 24, rows)})
    return frame, (rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int)


@pytest.mark.parametrize("as_texts", [False, True])
def test_the_default_does_not_learn_ids_by_heart(as_texts):
    (X, y), (new, truth) = clicks(2500, 1), clicks(4000, 2)
    if as_texts:
        X, new = X.astype({"user_id": str}), new.astype({"user_id": str})
    model = dp.Model().fit(X, y)
    assert len(model.history) == 4
    loss = lambda p: -np.where(truth == 1, np.log(p), np.log(1 - p)).mean()
    assert loss(model.predict_proba(new)[:, 1]) < loss(np.full(len(truth), y.mean())) - 0.01
    assert len(dp.Model().fit(X[["price", "hour"]], y).history) == 20
    assert len(dp.Model().fit(X[["user_id", "item"]], y).history) == 20  # a factorization machine


def test_an_array_of_another_width_is_refused():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = (X[:, 0] > 0).astype(int)
    wider = np.c_[X[:, 1], X]
    model = small().fit(X, y)
    wanted = model.predict_raw(X)
    for form in (X, pd.DataFrame(X), X.tolist()):
        np.testing.assert_array_equal(model.predict_raw(form), wanted)
    for again in (model, pickle.loads(pickle.dumps(model)), small().fit(X.tolist(), y), small().fit(pd.DataFrame(X), y)):
        for form in (wider, pd.DataFrame(wider), wider.tolist()):
            with pytest.raises(ValueError, match="X has 3 columns, but the model was trained on 2"):
                again.predict(form)
    with pytest.raises(ValueError, match="X has 3 columns"):
        model.partial_fit(wider, y)
    with pytest.raises(ValueError, match="X has 3 columns"):
        small().fit(X, y, eval_set=(wider, y))
    wide = rng.normal(size=(300, 300))  # one field of all columns
    model = small().fit(wide, y)
    assert len(model.predict(wide)) == 300
    with pytest.raises(ValueError, match="X has 301 columns"):
        model.predict(np.c_[wide, X[:, 0]])


def test_arguments_of_another_form():
    frame, y = colours(300)
    records = frame.to_dict("records")
    cases = [
        (records, {}, r"X is a list of dict; give pandas.DataFrame\(X\)"),
        ([frame, frame], {}, r"X is a list of DataFrame; give an iterator, for example iter\(X\)"),
        (frame, {"train.batch_size": None}, "the setting 'train.batch_size' is None"),
        (frame, {"optimizer.schedule": {"type": None}}, "a setting has the value None"),
    ]
    for X, settings, text in cases:
        with pytest.raises(ValueError, match=text):
            dp.Model(epochs=1, settings=settings).fit(X, y)
    with pytest.warns(UserWarning, match="times"), pytest.raises(ValueError, match="X has no column that a model can use"):
        dp.Model(epochs=1).fit(pd.DataFrame({"when": pd.date_range("2026-01-01", periods=300)}), y)
    seen = []
    small(settings={"data.header": np.bool_(False)}).fit(frame, y, callbacks=lambda progress: seen.append(progress))
    assert seen


def test_two_numbers_stay_numbers_if_the_job_or_the_preset_chooses_a_regression():
    X = np.random.default_rng(1).normal(size=(300, 1)).astype(np.float32)
    y = np.where(X[:, 0] > 0, 7.0, -5.0)
    job = 'data.fields = { x0 = {}, label = {} }\nmodel.preset = "linear_regression"\nmodel.target = "label"\n'
    for choice in ({"job": job}, {"preset": "linear_regression"}):
        model = dp.Model(**choice).fit(X, y)
        assert model.classes is None
        assert len(np.unique(model.predict(X))) > 100
        assert dp.Model(**choice).fit(X, np.full(300, 3.0)).classes is None
    assert dp.Model(epochs=1).fit(X, y).classes.tolist() == [-5, 7]


def test_whole_numbers_are_the_same_category_in_every_type():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 5, 2000)
    y = codes % 2
    categories = pd.DataFrame({"k": pd.Categorical(codes.astype(float))})
    model = small().fit(categories, y)
    texts = pd.DataFrame({"k": codes.astype(str)})
    np.testing.assert_array_equal(model.predict_raw(texts), model.predict_raw(categories))


@pytest.mark.parametrize("form", ["pandas", "arrow", "mapping"])
def test_importance_ranks_the_columns_by_what_the_model_uses(trained, form):
    frame, y = colours(2000, seed=5)
    frame["unused"] = np.arange(2000)
    data = {"pandas": frame, "arrow": pa.Table.from_pandas(frame), "mapping": {c: frame[c].to_numpy() for c in frame}}
    ranks = trained.importance(data[form], y)
    assert list(ranks)[-1] == "unused" and ranks["unused"] == 0
    assert ranks["x"] > 0.3 and ranks["colour"] > 0.3
    with pytest.raises(ValueError, match="none of the classes"):
        trained.importance(data[form], y + 5)


def test_importance_of_an_array_for_a_regression():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 3)).astype(np.float32)
    y = 3 * X[:, 1] + X[:, 2]
    before = X.copy()
    ranks = dp.Model().fit(X, y).importance(X, y)
    assert list(ranks) == ["x1", "x2", "x0"]
    assert ranks["x1"] == pytest.approx(3 * np.sqrt(2 / 3), rel=0.15)  # sqrt(2 Var(3 x))
    np.testing.assert_array_equal(X, before)


def test_importance_takes_any_names_and_checks_the_labels():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (1000, 2))
    y = X[:, 0]
    model = dp.Model(epochs=5).fit(X, y)
    ranks = model.importance(pd.DataFrame(X), y)
    assert list(ranks) == ["0", "1"]
    assert model.importance(X, y.reshape(-1, 1)) == model.importance(X, y)
    with pytest.raises(ValueError, match="1000 rows"):
        model.importance(X, y[:10])
    with pytest.raises(ValueError, match="row 3 is NaN"):
        model.importance(X, np.where(np.arange(1000) == 3, np.nan, y))
    assert list(dp.Model(epochs=5).fit(X, y, feature_names=["a", "b"]).importance(X, y)) == ["a", "b"]


def test_presets_for_other_targets_say_so():
    x, classes = np.random.default_rng(8).normal(size=(300, 2)), np.array(["a", "b", "c"])[np.arange(300) % 3]
    with pytest.raises(ValueError, match="labels are classes: use \"logistic_regression\""):
        dp.Model("linear_regression", epochs=1).fit(x, classes)
    with pytest.raises(ValueError, match="labels are numbers"):
        dp.Model("softmax_mlp", epochs=1).fit(x, x[:, 0])
    assert dp.Model("softmax_mlp", epochs=1).fit(x, classes).classes.tolist() == ["a", "b", "c"]


def test_the_first_callback_knows_the_number_of_epochs():
    seen = []
    x = np.random.default_rng(8).normal(size=(300, 2))
    dp.Model(epochs=3).fit(x, np.arange(300) % 2, callbacks=[lambda p: seen.append(p["epochs"])])
    assert set(seen) == {3}


WEIGHED = 'model = { preset = "logistic_regression", target = "y"%s }\n[data.fields]\na = {}\nb = {}\ny = {}\n'


def test_weights_of_a_job():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"])
    y, w = (X.a > 0).astype(int), rng.uniform(0.5, 2, 600)
    model = dp.Model(job=WEIGHED % "").fit(X, y, sample_weight=w, target="y")
    assert model.description["outputs"][0]["weights"] == "sample_weight"
    model.partial_fit(X, y, sample_weight=w)
    layers = """model.outputs = [{ name = "o", input = "l", loss = "logistic", target = "y" }]
        model.layers = [{ name = "l", type = "dense", inputs = ["a", "b"], units = [1] }]
        data.fields = { a = {}, b = {}, y = {} }"""
    with pytest.raises(ValueError, match="the job has layers, so sample_weight does not apply"):
        dp.Model(job=layers).fit(X, y, sample_weight=w, target="y")

    own = WEIGHED % ', weights = "w"' + "w = {}\n"
    trained = lambda: dp.Model(job=own).fit(X.assign(w=w), y, target="y")
    by_column = trained().partial_fit(X.assign(w=w), y).predict_raw(X)
    np.testing.assert_array_equal(trained().partial_fit(X, y, sample_weight=w).predict_raw(X), by_column)
    assert np.abs(trained().partial_fit(X.assign(w=1.0), y).predict_raw(X) - by_column).max() > 1e-6
    with pytest.raises(ValueError, match="X has no column 'w', the weights of the job"):
        trained().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has the column 'w', the weights of the job, so leave out sample_weight"):
        trained().partial_fit(X.assign(w=w), y, sample_weight=w)


def test_partial_fit_has_a_constant_rate_in_all_rules():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=600)})
    rule = '{ variables = "*", type = "sgd", learning_rate = 0.5%s }'
    schedule = ', schedule = { type = "constant", warmup_steps = 1000 }'
    after = []
    for given in ("", schedule):
        job = 'model = { preset = "logistic_regression", target = "y" }\n' \
              'optimizer = { type = "sgd", learning_rate = 0.5, rules = [%s] }\n' % (rule % given)
        model = dp.Model(job=job).fit(X.head(1), [1], target="y")  # one step
        after.append([model.partial_fit(X, X.a > 0).predict_raw(X, activation=False).std() for _ in range(3)])
    assert after[1] == pytest.approx(after[0], rel=0.2)
