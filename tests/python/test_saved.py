"""Saved models in other hands: the programs that read them, and later runs in their folder."""

import json
import subprocess

import downpour as dp
import numpy as np
import pandas as pd
import pytest
from downpour._programs import program

ROWS = 900
RNG = np.random.default_rng(3)


def downpour(*arguments):
    command = [program("downpour"), *map(str, arguments), "--quiet"]
    return subprocess.run(command, check=True, capture_output=True, text=True)


def predict(run, data, tmp_path):
    downpour("predict", run, "--data", data, "--out", tmp_path / "p.npy")
    return np.load(tmp_path / "p.npy")


@pytest.mark.parametrize("mark", ["NA", "?", "null"])
def test_a_category_that_looks_missing_stays_a_category_in_a_file(tmp_path, mark):
    frame = pd.DataFrame({"c": RNG.choice(["DE", "US", mark], ROWS), "n": RNG.normal(size=ROWS)})
    model = dp.Model(epochs=5).fit(frame, frame.c == mark)
    model.save(tmp_path / "model")
    frame.to_csv(tmp_path / "x.csv", index=False)
    np.testing.assert_allclose(predict(tmp_path / "model", tmp_path / "x.csv", tmp_path), model.predict_raw(frame), atol=1e-6)


def test_a_mark_that_is_no_category_is_missing_in_a_file(tmp_path):
    frame = pd.DataFrame({"c": RNG.choice(["DE", "US", None], ROWS), "n": RNG.normal(size=ROWS)})
    frame.loc[::7, "n"] = np.nan
    model = dp.Model(epochs=5).fit(frame, frame.c.isna())
    model.save(tmp_path / "model")
    frame.to_csv(tmp_path / "x.csv", index=False, na_rep="NA")
    np.testing.assert_allclose(predict(tmp_path / "model", tmp_path / "x.csv", tmp_path), model.predict_raw(frame), atol=1e-6)


def test_a_model_that_trims_cells_trims_the_texts_of_a_frame(tmp_path):
    c, n = RNG.choice(["a", "b", "c", "?"], ROWS), RNG.normal(size=ROWS)
    lines = [f"{n[i]:.4f}, {c[i]},{int(c[i] == 'c')}" for i in range(ROWS)]
    (tmp_path / "data.csv").write_text("n, c,label\n" + "\n".join(lines) + "\n")
    downpour("train", tmp_path / "data.csv", "--epochs", 3, "--set", f'run_dir="{tmp_path}/run"')
    model = dp.Model.load(tmp_path / "run")
    assert "trim = true" in model.description["job"]
    frame = pd.read_csv(tmp_path / "data.csv")
    frame.columns = ["n", "c", "label"]
    assert frame.c[0].startswith(" ")
    wanted = predict(tmp_path / "run", tmp_path / "data.csv", tmp_path)
    np.testing.assert_allclose(model.predict_raw(frame[["n", "c"]]), wanted, atol=1e-5)
    np.testing.assert_allclose(model.predict_raw(frame.assign(c=frame.c.astype("category"))[["n", "c"]]), wanted, atol=1e-5)


def test_texts_that_differ_in_blanks_stay_apart_in_train(tmp_path):
    c = RNG.choice(["a", " a", "a "], ROWS)
    frame = pd.DataFrame({"c": c, "n": RNG.normal(size=ROWS), "label": (c == " a").astype(int)})
    model = dp.train(data=frame, run_dir=tmp_path / "run", settings={"train.epochs": 10})
    assert (model.predict(frame[["c", "n"]]) == frame.label).mean() > 0.95


def test_labels_of_a_saved_model_do_not_survive_another_run_in_its_folder(tmp_path):
    frame = pd.DataFrame({"n": RNG.normal(size=ROWS)})
    run, data = tmp_path / "run", tmp_path / "data.csv"
    old = dp.Model(epochs=2).fit(frame, np.array(["aa", "neg", "pos"])[np.arange(ROWS) % 3])
    old.save(run)
    assert dp.Model.load(run).classes.tolist() == ["aa", "neg", "pos"]
    kept = (run / "python.json").read_text()
    new = frame.assign(label=np.where(frame.n > 0, "yes", "no"))
    new.to_csv(data, index=False)
    downpour("train", data, "--epochs", 2, "--set", f'run_dir="{run}"', "--fresh")
    assert not (run / "python.json").exists()
    assert sorted(dp.Model.load(run).classes) == ["no", "yes"]
    (run / "python.json").write_text(kept)  # of another run
    assert sorted(dp.Model.load(run).classes) == ["no", "yes"]
    old.save(tmp_path / "again")
    extras = json.loads((tmp_path / "again/python.json").read_text())
    del extras["run"], extras["checksum"]  # as earlier versions wrote it
    (tmp_path / "again/python.json").write_text(json.dumps(extras))
    assert dp.Model.load(tmp_path / "again").classes.tolist() == ["aa", "neg", "pos"]


def test_damaged_labels_of_a_saved_model_are_an_error_that_names_the_file(tmp_path):
    model = dp.Model(epochs=1).fit(RNG.normal(size=(ROWS, 2)), np.array(["n", "p"])[np.arange(ROWS) % 2])
    model.save(tmp_path)
    path = tmp_path / "python.json"
    whole = path.read_text()
    assert dp.Model.load(tmp_path).classes.tolist() == ["n", "p"]
    for damaged in ["", "[1]", "{", "\xff", whole.replace('"n"', '"q"'), whole.replace('"labels"', '"label"')]:
        if damaged == whole:
            continue
        path.write_bytes(damaged.encode("latin-1"))
        with pytest.raises(dp.DownpourError, match="python.json"):
            dp.Model.load(tmp_path)
