"""Saved models in other hands: the programs that read them, and later runs in their folder."""

import json
import subprocess

import downpour as dp
import numpy as np
import pandas as pd
from downpour._programs import program

ROWS = 900
RNG = np.random.default_rng(3)


def downpour(*arguments):
    command = [program("downpour"), *map(str, arguments), "--quiet"]
    return subprocess.run(command, check=True, capture_output=True, text=True)


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
    del extras["run"]  # as earlier versions wrote it
    (tmp_path / "again/python.json").write_text(json.dumps(extras))
    assert dp.Model.load(tmp_path / "again").classes.tolist() == ["aa", "neg", "pos"]
