"""Warnings of data and models that a simpler model or other data would suit."""

import warnings

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import make_regression


def linear(rows=200, columns=100, noise=10.0):
    X, y = make_regression(rows, columns, n_informative=5, noise=noise, random_state=0)
    return X, y


@pytest.mark.parametrize("form", ["array", "frame", "arrow", "vector"])
def test_a_better_linear_model_is_stated(form):
    X, y = linear()
    names = [f"c{i}" for i in range(X.shape[1])]
    gap = X.copy()
    gap[3, 4] = np.nan
    data = {"array": X, "frame": pd.DataFrame(gap, columns=names), "arrow": pa.table(dict(zip(names, X.T))),
            "vector": {"v": X, "side": np.array(["a", "b"])[np.arange(len(X)) % 2]}}[form]
    with pytest.warns(UserWarning, match="200 rows are few for the columns, and a linear model of the numbers has the R² 0.9[0-9]+ in "
                                         "leave-one-out") as caught:
        dp.Model(epochs=1).fit(data, y)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="the best evaluation has the R² .*, and a linear model of the numbers has the R² 0.9"):
        dp.Model(epochs=1, validation_fraction=0.2).fit(data, y)


def test_leave_one_out_is_that_of_a_refit_without_each_record():
    from downpour._advice import _PENALTIES, _leave_one_out

    X, y = linear(30, 4)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rmses = []
    for penalty in _PENALTIES:
        errors = []
        for i in range(30):
            rest = np.arange(30) != i
            A = np.c_[np.ones(29), X[rest]]
            weights = np.linalg.solve(A.T @ A + penalty * np.diag([0, 1, 1, 1, 1]), A.T @ y[rest])
            errors.append(y[i] - np.r_[1, X[i]] @ weights)
        rmses.append(np.sqrt(np.mean(np.square(errors))))
    assert _leave_one_out(X, y) == pytest.approx(min(rmses), rel=1e-6)


def test_a_model_that_learns_nothing_is_stated():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(600, 3))
    for y, metric in ((rng.normal(size=600), "R²"), (rng.random(600) < 0.5, "logloss"), (rng.integers(0, 3, 600), "logloss")):
        with pytest.warns(UserWarning, match=f"the best evaluation has the {metric} .*, no better than"):
            dp.Model(epochs=3, learning_rate=0.03, validation_fraction=0.3).fit(X, y)


def test_the_same_records_are_held_out_of_the_same_data():
    X = np.random.default_rng(1).normal(size=(300, 2))
    first, second = (dp.Model(epochs=3, validation_fraction=0.2).fit(X, X[:, 0]) for _ in range(2))
    np.testing.assert_array_equal(first.predict(X), second.predict(X))


def test_a_holdout_that_can_not_decide_is_not_made():
    X = np.random.default_rng(1).normal(size=(300, 2))
    with pytest.warns(UserWarning, match=r"validation_fraction=0.003 of 300 records .* at least 0.033"):
        model = dp.Model(epochs=2, validation_fraction=0.003).fit(X, X[:, 0])
    np.testing.assert_array_equal(model.predict(X), dp.Model(epochs=2).fit(X, X[:, 0]).predict(X))


def test_numbers_that_differ_too_little_are_stated():
    rng = np.random.default_rng(1)
    X = rng.random((300, 2))
    far = np.where(rng.random(300) < 0.8, 1e7, 0)  # a column whose numbers are all large is read with 64 bits
    with pytest.warns(UserWarning, match="the numbers of the column `x0` differ too little for 32-bit floats"):
        dp.Model(epochs=1).fit(np.column_stack([X[:, 0] + far, X[:, 1]]), X[:, 1])


def test_good_models_give_no_advice():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (3000, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2], X[:, 0] + X[:, 1], X[:, 0] > 0, np.digitize(X[:, 0], [-0.3, 0.3])):
            for more in ({}, {"validation_fraction": 0.2}):
                dp.Model(**more).fit(X, y)


def test_columns_that_nearly_vanish_are_stated():
    rng = np.random.default_rng(1)
    even = rng.normal(size=(500, 300)) * rng.uniform(0.5, 2, 300) + 3
    uneven = even * 10 ** rng.uniform(-3, 4, 300)
    counts = (rng.random((500, 300)) < 10 ** rng.uniform(-3, -0.5, 300)).astype(np.float32)
    y = even[:, 0] > 3
    with pytest.warns(UserWarning, match="X is scaled as a whole, because it has 300 columns, but column [0-9]+ has the standard"):
        dp.Model(epochs=1).fit(uneven, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for X in (even, counts, np.zeros((500, 300)), rng.integers(0, 256, (500, 300)).astype(np.uint8)):
            model = dp.Model(epochs=1).fit(X, y)
        model.predict(uneven)
        dp.Model(epochs=1).fit(uneven[:20], y[:20], feature_names=[f"c{i}" for i in range(300)])


def test_columns_that_are_left_out_are_stated():
    rng = np.random.default_rng(1)
    x = rng.normal(size=1000)
    frame = pd.DataFrame({"last_login_ts": 1.6e9 + 1e7 * x, "none": np.nan, "order_id": np.arange(1000), "x": x})
    left_out = "left out of X: `last_login_ts`, `none`, `order_id`, as ids, moments or columns without values"
    with pytest.warns(UserWarning, match=left_out):
        model = dp.Model(epochs=1).fit(frame, x > 0)
    assert "order_id" in model.description["reason"]
