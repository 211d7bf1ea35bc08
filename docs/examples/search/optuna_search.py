"""Searches settings of a model with Optuna, for a file with a header: pip install optuna pandas

    python optuna_search.py adult.csv --target income --trials 30 --out models/adult

A trial is stopped early if it is worse than the median of the earlier ones at the same epoch; the first STARTUP trials are
not. The study is kept in OUT.db: the same command continues it. The model with the best evaluation is written to OUT.
"""
import argparse
import shutil
from pathlib import Path

import downpour as dp
import optuna
import pandas as pd


# The first trial: what dp.Model chooses for many tables, but with one optimizer for all variables.
DEFAULTS = {"preset": "wide_deep", "bins": 16, "dim": 16, "layers": 2, "units": 64, "dropout": 0.0, "learning_rate": 0.001, "batch_size": 256}


def settings_of(trial):
    """Returns what a trial tries: the arguments of dp.Model."""
    layers = trial.suggest_int("layers", 1, 3)
    return {
        "preset": trial.suggest_categorical("preset", ["wide_deep", "deepfm", "dcn_v2"]),
        "batch_size": trial.suggest_categorical("batch_size", [64, 128, 256, 512]),
        "settings": {
            "model.bins": trial.suggest_categorical("bins", [8, 16, 32]),
            "model.dim": trial.suggest_categorical("dim", [4, 8, 16]),
            "model.units": [trial.suggest_categorical("units", [32, 64, 128])] * layers,
            "model.dropout": trial.suggest_float("dropout", 0, 0.5),
            "optimizer.type": "adam",
            "optimizer.learning_rate": trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        },
    }


def search(x, y, out, trials, startup):
    rows = pd.Series(range(len(x))).sample(frac=0.2, random_state=1)
    held_out, rest = x.iloc[rows], x.drop(x.index[rows])
    y_held_out, y_rest = y.iloc[rows], y.drop(y.index[rows])

    def objective(trial):
        pruned = False

        def report(progress):
            nonlocal pruned
            for epoch in progress["history"]:
                trial.report(epoch["eval"]["loss"], epoch["epoch"])
            pruned = pruned or trial.should_prune()
            return pruned  # True ends the training

        model = dp.Model(**settings_of(trial), n_jobs=-1)
        model.fit(rest, y_rest, eval_set=(held_out, y_held_out), callbacks=[report])
        if pruned:
            raise optuna.TrialPruned
        loss = min(epoch["eval"]["loss"] for epoch in model.history)  # of the epoch that is kept
        finished = trial.study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.COMPLETE])
        if all(loss < earlier.value for earlier in finished):
            new = out.with_name(out.name + ".new")
            shutil.rmtree(new, ignore_errors=True)
            model.save(new)
            shutil.rmtree(out, ignore_errors=True)
            new.rename(out)
        return loss

    study = optuna.create_study(study_name=out.name, storage=f"sqlite:///{out}.db", load_if_exists=True,
                                pruner=optuna.pruners.MedianPruner(n_startup_trials=startup, n_warmup_steps=1))
    study.enqueue_trial(DEFAULTS, skip_if_exists=True)
    study.optimize(objective, n_trials=trials)
    return study


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--target", required=True)
    arguments.add_argument("--trials", type=int, default=30)
    arguments.add_argument("--startup", type=int, default=5)
    arguments.add_argument("--out", type=Path, default=Path("best-model"))
    given = arguments.parse_args()
    if given.out.exists() and not given.out.with_name(given.out.name + ".db").exists():
        arguments.error(f"--out {given.out}: exists, and belongs to no study; name another folder")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    data = pd.read_csv(given.file)
    study = search(data.drop(columns=given.target), data[given.target], given.out, given.trials, given.startup)
    pruned = len(study.get_trials(states=[optuna.trial.TrialState.PRUNED]))
    print(f"{len(study.trials)} trials, {pruned} stopped early; best evaluation loss {study.best_value:.4f} with {study.best_params}")
