"""The estimators against scikit-learn's own checks and tools."""

import warnings

import downpour as dp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from downpour.sklearn import DownpourClassifier, DownpourRegressor
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, make_classification
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

# A record of weight 2 is one record in the order of a batch, and two equal records are two.
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "the order of records in batches differs",
    "check_sample_weight_equivalence_on_sparse_data": "the order of records in batches differs",
}


@parametrize_with_checks(
    [DownpourClassifier(), DownpourRegressor()], expected_failed_checks=lambda estimator: EXPECTED)
def test_checks(estimator, check):
    check(estimator)


def test_search_and_pipelines():
    X, y = load_breast_cancer(return_X_y=True)
    assert cross_val_score(DownpourClassifier(), X, y, cv=3).mean() > 0.93
    search = GridSearchCV(DownpourClassifier(), {"epochs": [1, 10]}, cv=3).fit(X, y)
    assert search.best_params_["epochs"] == 10
    pipeline = make_pipeline(StandardScaler(), DownpourClassifier()).fit(X, y)
    assert pipeline.score(X, y) > 0.95
    X, y = load_diabetes(return_X_y=True)
    assert cross_val_score(DownpourRegressor(), X, y, cv=3).mean() > 0.35


def test_frame_with_categories():
    X, y = make_classification(1000, 6, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["side"] = np.where(frame.a > 0, "left", "right")
    classifier = DownpourClassifier().fit(frame, y)
    assert list(classifier.feature_names_in_) == [*"abcdef", "side"]
    assert classifier.score(frame, y) > 0.85
    with pytest.raises(ValueError, match="feature names"):
        classifier.predict(frame.rename(columns={"a": "z"}))
    assert clone(classifier).get_params() == classifier.get_params()


def test_hinge():
    X, y = load_breast_cancer(return_X_y=True)
    hinge = DownpourClassifier(epochs=20, settings={"model.loss": "hinge"}).fit(X, y)
    assert (hinge.predict(X) == y).mean() > 0.95
    assert ((hinge.decision_function(X) >= 0) == y).mean() > 0.95
    assert cross_val_score(hinge, X, y, cv=3, scoring="roc_auc").mean() > 0.97
    with pytest.raises(RuntimeError, match="no probabilities"):
        hinge.predict_proba(X)


def three_columns():
    X, y = make_classification(1000, 4, random_state=0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["side"] = np.where(frame.a > 0, "left", "right")
    frame["user_id"] = 2**60 + np.arange(1000) % 7
    return frame, y


def test_an_array_after_a_frame_goes_by_position():
    """As SHAP, LIME and other tools pass it."""
    frame, y = three_columns()
    classifier = DownpourClassifier(epochs=5).fit(frame, y)
    wanted = classifier.predict_proba(frame)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        np.testing.assert_array_equal(classifier.predict_proba(frame.to_numpy(object)), wanted)
    numbers = frame[list("abcd")]
    for columns in (list("abcd"), [10, 20, 30, 40], range(4)):
        named = numbers.set_axis(columns, axis=1)
        regressor = DownpourRegressor(epochs=2).fit(named, frame.a)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for form in (numbers.to_numpy(), scipy.sparse.csr_matrix(numbers.to_numpy())):
                np.testing.assert_array_equal(regressor.predict(form), regressor.predict(named))
    calibrated = CalibratedClassifierCV(DownpourClassifier(epochs=5), cv=2).fit(numbers, y)
    assert calibrated.score(numbers, y) > 0.8


@pytest.mark.parametrize("columns", [4, 300])
def test_a_frame_after_an_array_goes_by_position(columns):
    X, y = make_classification(500, columns, random_state=0)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(columns)])
    for data in (X, pd.DataFrame(X)):
        classifier = DownpourClassifier(epochs=2).fit(data, y)
        for form in (frame, pa.Table.from_pandas(frame)):
            with pytest.warns(UserWarning, match="X has feature names, but DownpourClassifier was fitted without"):
                np.testing.assert_array_equal(classifier.predict_proba(form), classifier.predict_proba(data))


def test_evaluation_data_of_the_other_form():
    frame, y = three_columns()
    numbers = frame[list("abcd")]
    fits = [DownpourClassifier(epochs=3).fit(numbers, y, eval_set=(data, y)) for data in (numbers, numbers.to_numpy())]
    assert fits[0].model_.history[-1]["eval"] == fits[1].model_.history[-1]["eval"]
    fits = [DownpourRegressor(epochs=3).fit(numbers, frame.a, eval_set=(data, frame.a))
            for data in (numbers, numbers.to_numpy())]
    assert fits[0].model_.history[-1]["eval"] == fits[1].model_.history[-1]["eval"]


def test_probabilities_sum_to_one_with_all_digits():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 3))
    for y in (X[:, 0] > 0, np.digitize(X[:, 0], [-0.5, 0.5])):
        probabilities = DownpourClassifier(epochs=2).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=1e-15)


def test_arguments_of_another_type_are_named():
    X, y = np.zeros((20, 1)), np.arange(20) % 2
    with pytest.raises(ValueError, match="n_jobs is 'x', but must be an integer or None"):
        DownpourClassifier(n_jobs="x").fit(X, y)
    with pytest.raises(ValueError, match="sample_weight has the shape"):
        dp.Model().fit(X, y, sample_weight=2.0)
    with pytest.raises(ValueError, match="sample_weight has values that are no numbers"):
        dp.Model().fit(X, y, sample_weight=["a"] * 20)


def test_logarithms_of_probabilities():
    X, y = make_classification(500, 4, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)
    for labels in (y, y > 0):
        classifier = DownpourClassifier(epochs=3).fit(X, labels)
        logarithms = classifier.predict_log_proba(X)
        np.testing.assert_allclose(np.exp(logarithms), classifier.predict_proba(X), rtol=1e-6)
        assert np.isfinite(logarithms).all()


def test_class_weight_equals_sample_weight():
    X, y = make_classification(1000, 4, weights=[0.9], random_state=0)
    labels = np.array(["no", "yes"])[y]
    balanced = DownpourClassifier(epochs=5, class_weight="balanced").fit(X, labels)
    weights = len(y) / (2 * np.bincount(y)[y])
    by_weights = DownpourClassifier(epochs=5).fit(X, labels, sample_weight=weights)
    np.testing.assert_array_equal(balanced.predict_proba(X), by_weights.predict_proba(X))
    plain = DownpourClassifier(epochs=5).fit(X, labels)
    assert balanced.predict_proba(X)[:, 1].mean() > 1.5 * plain.predict_proba(X)[:, 1].mean()
    both = DownpourClassifier(epochs=5, class_weight={"yes": 3}).fit(X, labels, sample_weight=np.full(1000, 2.0))
    product = DownpourClassifier(epochs=5).fit(X, labels, sample_weight=np.where(y, 6.0, 2.0))
    np.testing.assert_array_equal(both.predict_proba(X), product.predict_proba(X))
    assert clone(balanced).class_weight == "balanced"
    with pytest.raises(ValueError, match="not in class_weight"):
        DownpourClassifier(class_weight={"maybe": 3}).fit(X, labels)


def test_labels_of_any_range():
    X, y = make_classification(500, 4, n_informative=4, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=0)
    for labels in (y + 5, y - 1, (y * 10).astype(float), (y + 1).astype(object)):
        classifier = DownpourClassifier(epochs=2).fit(X, labels)
        assert classifier.predict_proba(X).shape == (500, 3)
        assert set(classifier.predict(X)) <= set(labels.tolist())
    for labels, kind in ((pd.array(y, "Int64"), "i"), (pd.array(y > 0, "boolean"), "b"), (pd.Series(y > 0, dtype="category"), "b")):
        assert np.asarray(DownpourClassifier(epochs=1).fit(X, pd.Series(labels)).classes_).dtype.kind == kind
    with pytest.raises(ValueError, match="missing labels"):
        DownpourClassifier(epochs=1).fit(X, np.where(y > 0, "a", None))
