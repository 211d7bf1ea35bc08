"""The estimators against scikit-learn's own checks and tools."""

import numpy as np
import pandas as pd
import pytest
from downpour.sklearn import DownpourClassifier, DownpourRegressor
from sklearn.base import clone
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
