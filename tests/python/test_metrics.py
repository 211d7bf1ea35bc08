"""Metrics of evaluations: of slices, of groups and of classes, compared with scikit-learn."""

import downpour as dp
import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import (log_loss, mean_absolute_error, ndcg_score, roc_auc_score, top_k_accuracy_score)


def clicks(rows, seed):
    """Clicks of 60 users in cities of very different sizes, some of them unknown."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Oslo", "Rome", "Lima", "Bonn"], rows, p=[0.5, 0.3, 0.15, 0.05]).astype(object)
    city[rng.uniform(size=rows) < 0.1] = None
    user, x = rng.integers(0, 60, rows), rng.normal(size=rows)
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x * (1 + (city == "Oslo")) - user / 60))).astype(int)
    return pd.DataFrame({"x": x, "city": city, "user": user}), y


def best_line(model, figure="loss"):
    return min(model.history, key=lambda line: line["eval"][figure])


def test_slices_and_groups_are_those_of_scikit_learn():
    (frame, y), (held_out, labels) = clicks(4000, 1), clicks(2000, 2)
    model = dp.Model(epochs=2, settings={"eval.slices": ["city"], "eval.group_by": "user", "eval.ndcg_at": 5})
    model.fit(frame, y, eval_set=(held_out, labels))
    p = model.predict_proba(held_out)[:, 1]
    line = best_line(model)
    rows = line["slices"]["city"]
    values = held_out.city.value_counts()
    assert [row["value"] for row in rows] == [*values.index, None]
    for row in rows:
        chosen = held_out.city.isna() if row["value"] is None else held_out.city == row["value"]
        assert row["weight"] == chosen.sum()
        assert row["auc"] == pytest.approx(roc_auc_score(labels[chosen], p[chosen]), abs=1e-4)
        assert row["logloss"] == pytest.approx(log_loss(labels[chosen], p[chosen]), rel=1e-5)
    assert sum(row["weight"] for row in rows) == line["eval_records"] == 2000
    total = sum(row["weight"] * row["logloss"] for row in rows)
    assert total / 2000 == pytest.approx(line["eval"]["logloss"], rel=1e-9)
    aucs, ndcgs, weights = [], [], []
    raw = model.predict_raw(held_out).reshape(-1)
    for user in range(60):
        of_user = held_out.user == user
        assert 0 < labels[of_user].sum() < of_user.sum()
        aucs.append(roc_auc_score(labels[of_user], raw[of_user]))
        ndcgs.append(ndcg_score([labels[of_user]], [raw[of_user]], k=5))
        weights.append(of_user.sum())
    assert line["eval"]["gauc"] == pytest.approx(np.average(aucs, weights=weights), rel=1e-9)
    assert line["eval"]["ndcg"] == pytest.approx(np.mean(ndcgs), rel=1e-9)
    assert "gauc" not in line["train"]


def test_classes_and_numbers_have_the_metrics_of_scikit_learn():
    rng = np.random.default_rng(3)
    x, of_test = rng.normal(size=(3000, 4)), rng.normal(size=(1000, 4))
    centers = rng.normal(size=(7, 4))
    kinds = lambda rows: (rows @ centers.T + rng.normal(size=(len(rows), 7))).argmax(axis=1)
    y, labels = kinds(x), kinds(of_test)
    model = dp.Model(epochs=2, settings={"eval.top_k": 3}).fit(x, y, eval_set=(of_test, labels))
    wanted = top_k_accuracy_score(labels, model.predict_proba(of_test), k=3)
    assert best_line(model)["eval"]["top_k_accuracy"] == pytest.approx(wanted, rel=1e-9)
    assert "top_k_accuracy" in model.history[0]["train"]
    few = dp.Model(epochs=1).fit(x, y % 3, eval_set=(of_test, labels % 3))
    assert "top_k_accuracy" not in few.history[0]["eval"]
    size = lambda rows: rows[:, 0] * 3 + rng.normal(size=len(rows))
    y, sizes = size(x), size(of_test)
    model = dp.Model(epochs=2).fit(x, y, eval_set=(of_test, sizes))
    wanted = mean_absolute_error(sizes, model.predict(of_test))
    assert best_line(model)["eval"]["mae"] == pytest.approx(wanted, rel=1e-5)


def test_wrong_slices_are_errors():
    frame, y = clicks(200, 4)
    with pytest.raises(dp.DownpourError, match="there is no field `town`"):
        dp.Model(epochs=1, settings={"eval.slices": ["town"]}).fit(frame, y, eval_set=(frame, y))
    with pytest.raises(dp.DownpourError, match="needs groups"):
        dp.Model(epochs=1, settings={"eval.metrics": ["gauc"]}).fit(frame, y, eval_set=(frame, y))
