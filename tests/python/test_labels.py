"""Labels: what numbers are guessed to be, their forms, and labels that no model can use."""

import subprocess
import warnings
from decimal import Decimal

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from downpour._programs import program

ROWS = 1000
X = pd.DataFrame({"a": np.random.default_rng(1).normal(size=ROWS)})
THREE = np.digitize(X.a, [-0.5, 0.5])


def fit(y, data=X, **more):
    return dp.Model(epochs=3, **more).fit(data, y)


def quiet(y, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return fit(y, **more)


@pytest.mark.parametrize("values", [[0, 1, 2], [1, 2, 3], [0, 2, 5], [0.0, 1.0, 2.0]])
def test_few_whole_numbers_are_the_classes_that_occur(values):
    y = np.array(values)[THREE]
    wanted = None
    for form in (y, y.astype(object), y.astype(np.float32), pd.Series(y).astype("Int64"), pa.array(y), list(y),
                 pd.Series(y).astype("int64[pyarrow]"), [Decimal(int(value)) for value in y]):
        model = quiet(form)
        assert model.classes.tolist() == values
        probabilities = model.predict_proba(X)
        assert probabilities.shape == (ROWS, 3)
        assert (model.predict(X) == y).mean() > 0.7
        wanted = probabilities if wanted is None else wanted
        np.testing.assert_array_equal(probabilities, wanted)


def test_the_name_of_the_target_counts_as_for_the_program():
    def classes(name, values):
        y = pd.Series(np.arange(ROWS) % values, name=name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numbers that may be classes
            by_name = fit(name, X.assign(**{name: y})).classes
            of_series = fit(y).classes
        assert (by_name is None) == (of_series is None)
        return None if by_name is None else len(by_name)

    assert classes("user_rating", 5) is None
    assert classes("starCount", 5) is None
    assert classes("visits", 24) is None
    assert classes("visits", 8) == 8
    assert classes("category", 24) == 24
    with pytest.warns(UserWarning, match="taken as the numbers of a regression"):
        fit(pd.Series(THREE, name="rating"))


def test_classes_must_fit_the_task():
    with pytest.raises(ValueError, match='classes is given, but task="regression" predicts numbers'):
        dp.Model(task="regression").fit(X, THREE, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="classes has 1 labels, but there must be two or more"):
        dp.Model().fit(X, THREE, classes=[0])


def test_classes_do_not_change_the_model():
    """The places of the labels among all labels are what the library trains with."""
    wanted = quiet(THREE).predict_proba(X)
    for y in (THREE + 1, np.array(["a", "b", "c"])[THREE]):
        np.testing.assert_array_equal(quiet(y).predict_proba(X), wanted)


def test_classes_of_floats_are_few():
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 40, ROWS)
    assert quiet(counts.astype(float)).classes is None
    half = THREE.astype(float)
    half[7] = 0.5
    assert quiet(half).classes is None
    assert quiet(np.round(X.a * 100) + 500).classes is None


def test_a_guess_that_may_be_wrong_is_stated():
    with pytest.warns(UserWarning, match="3 different integers from -1 to 1, which are taken as the numbers of a regression; "
                                         'give task="classes" if they are classes') as caught:
        assert fit(THREE - 1).classes is None
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="3 different integers from 5 to 7"):
        assert fit(THREE + 5).classes is None
    counts = np.random.default_rng(1).integers(0, 40, ROWS)
    with pytest.warns(UserWarning, match='40 different integers from 0 to 39, which are taken as classes; give '
                                         'task="regression" if they are numbers, such as counts'):
        assert len(fit(counts).classes) == 40
    assert quiet(THREE + 5, task="classes").predict_proba(X).shape == (ROWS, 3)
    assert quiet(THREE - 1, task="regression").classes is None
    assert quiet(counts, task="regression").classes is None
    assert quiet(counts, settings={"model.loss": "poisson"}).description["outputs"][0]["loss"] == "poisson"
    assert quiet(THREE + 1, settings={"model.loss": "softmax_cross_entropy"}).classes.tolist() == [1, 2, 3]


def test_ratings_of_a_factorization():
    rng = np.random.default_rng(1)
    pairs = pd.DataFrame({"user_id": rng.integers(0, 20, ROWS), "item_id": rng.integers(0, 20, ROWS)})
    ratings = (pairs.user_id + pairs.item_id) % 5 + 1
    for preset in ("matrix_factorization", "factorization_machine"):
        model = quiet(ratings, data=pairs, preset=preset)
        assert model.classes is None
        assert model.description["outputs"][0]["loss"] == "squared"
    assert quiet(ratings > 3, data=pairs, preset="factorization_machine").classes.tolist() == [False, True]


def test_iterators_of_labels():
    names = np.array(["no", "yes"])[THREE % 2]
    wanted = fit(names).predict_proba(X)
    for labels in (iter(names), (label for label in names), iter([names[:300], names[300:]])):
        np.testing.assert_array_equal(fit(labels).predict_proba(X), wanted)
    parts = iter([X[:300], X[300:]])
    np.testing.assert_array_equal(fit(iter([names[:300], names[300:]]), data=parts).predict_proba(X), wanted)


def test_labels_that_no_model_can_use():
    cases = [
        (None, "y is None"),
        (X.a.astype(str), "y has the numbers .* as texts; convert them, for example with pandas.to_numeric"),
        (pd.to_timedelta(X.a, unit="h"), "y has times .*total_seconds"),
        (pd.Timestamp("2026-01-01") + pd.to_timedelta(X.a, unit="h"), "y has times"),
        (X.a.to_numpy() + 1j, "y has complex numbers"),
        (np.array([1, "a"], object)[THREE % 2], "y has labels of the types int and str"),
        (X.a * 1e42, r"y has the value .*e\+4\d in row 0"),
        (pd.Series(THREE).astype("Int64").mask(X.a > 1), "missing labels|is NaN"),
    ]
    for y, text in cases:
        with pytest.raises(ValueError, match=text):
            fit(y)
    as_texts = X.a.round(2).astype(str)
    np.testing.assert_allclose(fit(as_texts, task="regression").predict(X), fit(X.a.round(2)).predict(X), rtol=1e-5)
    assert fit(THREE.astype(str)).classes.tolist() == ["0", "1", "2"]


def test_labels_in_the_bytes_of_a_model():
    with pytest.warns(UserWarning, match="the labels 1, 2, 3 as they are: from_bytes.* gives '1', '2', '3'"):
        piece = quiet(THREE + 1).to_bytes()
    assert dp.Model.from_bytes(piece).classes.tolist() == ["1", "2", "3"]
    with pytest.warns(UserWarning, match="the labels False, True as they are"):
        quiet(THREE == 1).to_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dp.Model.from_bytes(fit(np.array(["b", "a", "NA"])[THREE]).to_bytes()).classes.tolist() == ["NA", "a", "b"]
        assert dp.Model.from_bytes(quiet(THREE).to_bytes()).classes.tolist() == [0, 1, 2]
        fit(X.a).to_bytes()


@pytest.mark.parametrize("values", [(-1, 1), (1, 2), (5, 1), (1.0, 2.0), (1, 2, 3), ("01", "02"), ("lo", "mid", "hi")])
def test_a_model_of_a_file_has_the_labels_of_the_file(tmp_path, values):
    rng = np.random.default_rng(1)
    x = rng.normal(size=900)
    y = np.array(values)[np.digitize(x, [0] if len(values) == 2 else [-0.5, 0.5])]
    frame = pd.DataFrame({"x": x, "label": y})
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = [program("downpour"), "train", "data.csv", "--epochs", "5", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    model = dp.Model.load(tmp_path / "runs/data")
    predicted = model.predict(frame[["x"]])
    assert (predicted == (y > 0 if values == (-1, 1) else y)).mean() > 0.9
    assert model.importance(frame[["x"]], y)["x"] > 0
    model.partial_fit(frame[["x"]], y)


@pytest.mark.parametrize("values", [("no", "yes"), ("NA", "b", "?"), (1, 3, 5), (False, True), (7, 9)])
def test_the_programs_know_the_classes_of_a_saved_model(tmp_path, values):
    rng = np.random.default_rng(1)
    x = rng.normal(size=900)
    y = np.array(values)[np.digitize(x, [0] if len(values) == 2 else [-0.5, 0.5])]
    frame = pd.DataFrame({"x": x})
    model = dp.Model(epochs=5).fit(frame, y)
    model.save(tmp_path / "run")
    frame.assign(label=y).to_csv(tmp_path / "data.csv", index=False)

    def downpour(*arguments):
        ended = subprocess.run([program("downpour"), *arguments, "run", "--data", "data.csv", "--quiet"], cwd=tmp_path, check=True,
                               capture_output=True, text=True)
        return ended.stdout

    likeliest = [line.split("\t")[0] for line in downpour("predict", "--top", "1").splitlines()]
    assert likeliest == [str(label) for label in model.predict(frame)]
    assert "examples" in downpour("eval")
    again = dp.Model.load(tmp_path / "run")
    assert again.classes.tolist() == sorted(values)
    again.partial_fit(frame, y)
    assert (again.predict(frame) == y).mean() > 0.9


def test_the_job_of_another_model_keeps_the_order_of_its_classes():
    x = np.random.default_rng(1).normal(size=900)
    frame, y = pd.DataFrame({"x": x}), np.where(x > 0.5, "common", "zrare")
    job = dp.Model(epochs=5).fit(frame, y).description["job"].replace('["common", "zrare"]', '["zrare", "common"]')
    model = dp.Model(job=job).fit(frame, y)
    assert model.classes.tolist() == ["zrare", "common"]
    assert (model.predict(frame) == y).mean() > 0.9
    with pytest.raises(ValueError, match="'other', which is none of the classes"):
        dp.Model(job=job).fit(frame, np.where(x > 0.5, "common", "other"))


def fit_labels(high, low, fields):
    """Fits a job with these fields to labels that are `high` for large numbers. Returns the records, their labels and the model."""
    x = np.random.default_rng(1).normal(size=900)
    frame, y = pd.DataFrame({"x": x}), np.where(x > 0.5, high, low)
    job = f"""[data]
        source = "-"
        {fields}
        [model]
        preset = "logistic_regression"
        [train]
        epochs = 20
        batch_size = 64
        """
    model = dp.Model(job=job.replace("        ", "")).fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.9
    return frame, y, model


@pytest.mark.parametrize("field", ['classes = ["b]", "a"]', "classes = [ 'b]', 'a' ]", 'classes = ["b]",\n  "a"]'])
def test_the_classes_of_a_job_in_any_form_of_toml(field):
    frame, y, model = fit_labels("a", "b]", '[data.fields.x]\ndefault = 0\n[data.fields.label]\ntype = "string"\n' + field)
    assert model.classes.tolist() == ["b]", "a"]


@pytest.mark.parametrize("positive", ["common", "zrare"])
def test_the_positive_label_of_a_job_is_the_second_class(positive):
    fields = 'fields.x = { default = 0 }\nfields.label = { type = "string", positive = ["' + positive + '"] }'
    frame, y, model = fit_labels("common", "zrare", fields)
    assert model.classes.tolist() == sorted(["common", "zrare"], key=lambda label: label == positive)
    for _ in range(3):
        model.partial_fit(frame, y)
    assert (model.predict(frame) == y).mean() > 0.9
    with pytest.raises(ValueError, match="has `positive`, so y must have two labels"):
        dp.Model(job=model.job).fit(frame, np.where(frame.x > 0.5, "a", "b"))


def test_labels_that_are_texts_stay_texts(tmp_path):
    x = np.random.default_rng(1).normal(size=900)
    y = np.array(["1", "2", "3"])[np.digitize(x, [-0.5, 0.5])]
    frame = pd.DataFrame({"x": x, "label": y})
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings={"train.epochs": 5})
    assert (model.predict(frame[["x"]]) == y).mean() > 0.9
    with pytest.raises(ValueError, match="y has the label '4', which is none of the classes"):
        model.partial_fit(frame[["x"]], np.where(y == "3", "4", y))


def test_a_wrong_text_among_integers_is_named(tmp_path):
    x = np.random.default_rng(1).normal(size=900)
    frame = pd.DataFrame({"x": x, "label": np.where(x > 0, 2, 1)})
    frame.to_csv(tmp_path / "data.csv", index=False)
    command = [program("downpour"), "train", "data.csv", "--epochs", "2", "--quiet"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    model = dp.Model.load(tmp_path / "runs/data")
    assert model.classes.tolist() == [1, 2]
    model.partial_fit(frame[["x"]][:3], ["1", "2.0", "1"])
    with pytest.raises(ValueError, match="y has the label 'x', which is none of the classes"):
        model.partial_fit(frame[["x"]][:3], ["1", "x", "2"])


def test_numbers_for_classes_of_texts():
    y = (X.a > 0).astype(int)
    for texts in (y.astype(str), y.astype(str).astype(object), y.astype(str).to_numpy(str)):
        model = dp.Model(epochs=1).fit(X, texts, eval_set=(X, y))
        assert model.classes.tolist() == ["0", "1"] and model.history[-1]["eval"]["auc"] > 0.99


@pytest.mark.parametrize("scale", [1e-50, 1e-10, 1e20, 1e40])
def test_only_the_ratios_of_weights_matter(scale):
    weights = np.where(X.a > 0, 4.0, 0.5)
    y = np.where(THREE == 2, 0, THREE)
    wanted = dp.Model(epochs=3).fit(X, y, sample_weight=weights).predict_raw(X)
    scaled = dp.Model(epochs=3).fit(X, y, sample_weight=weights * scale).predict_raw(X)
    np.testing.assert_allclose(scaled, wanted, atol=1e-3)


def test_weights_that_are_equal_are_none():
    wanted = fit(THREE == 1).predict_raw(X)
    for weight in (1, 0.1, 7e8):
        np.testing.assert_array_equal(
            dp.Model(epochs=3).fit(X, THREE == 1, sample_weight=np.full(ROWS, weight)).predict_raw(X), wanted)


def test_weights_that_are_all_0_are_refused():
    with pytest.raises(ValueError, match="all weights are 0"):
        dp.Model(epochs=3).fit(X, THREE == 1, sample_weight=np.zeros(ROWS))


def test_partial_fit_divides_weights_as_the_first_call(tmp_path):
    def trained(scale, saved):
        model = dp.Model(epochs=3)
        model.partial_fit(X, THREE == 1, sample_weight=np.full(ROWS, 2.0 * scale))
        if saved:
            model.save(tmp_path / f"model-{scale}")
            model = dp.Model.load(tmp_path / f"model-{scale}")
        model.partial_fit(X, THREE == 1, sample_weight=np.full(ROWS, 6.0 * scale))
        return model.partial_fit(X, THREE == 1, sample_weight=np.zeros(ROWS)).predict_raw(X)

    wanted = trained(0.5, saved=False)
    np.testing.assert_array_equal(trained(64, saved=False), wanted)
    np.testing.assert_array_equal(trained(128, saved=True), wanted)
    first = dp.Model(epochs=3).partial_fit(X, THREE == 1, sample_weight=np.ones(ROWS))
    smaller = first.partial_fit(X, THREE == 1, sample_weight=np.ones(ROWS)).predict_raw(X)
    assert np.abs(smaller - wanted).max() > 1e-3


def test_two_classes_of_a_task_classes_are_those_of_a_binary_task():
    for labels in (np.array([0, 1])[THREE // 2], np.array(["no", "yes"])[THREE // 2]):
        model = fit(labels, task="classes")
        np.testing.assert_array_equal(model.predict_proba(X), fit(labels, task="binary").predict_proba(X))
        assert model.predict_proba(X).shape == (ROWS, 2)


def test_labels_that_do_not_fit_the_task_are_shown():
    with pytest.raises(ValueError, match='y has 3 labels, such as \'a\', \'b\', \'c\', but task="binary" is for two; give '
                                         'task="classes"'):
        fit(np.array(["a", "b", "c"])[THREE], task="binary")
    with pytest.raises(ValueError, match='labels that are not numbers, which task="regression" needs'):
        fit(np.array(["a", "b", "c"])[THREE], task="regression")


def test_a_target_that_floats_round_is_reported():
    y = 1e8 + 2 * X.a
    with pytest.warns(UserWarning, match="the numbers of the target `label` differ too little for 32-bit floats"):
        fit(y)
    quiet(1e3 + 2 * X.a)
