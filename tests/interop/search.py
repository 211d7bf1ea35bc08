"""docs/examples/search/optuna_search.py with Optuna: a study that a second start continues, and the model that it keeps."""
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
library, folder = Path(sys.argv[1]), Path(sys.argv[2])
os.environ["DOWNPOUR_LIBRARY"] = str(library)
EXAMPLE = Path(__file__).parents[2] / "docs/examples/search/optuna_search.py"

random = np.random.default_rng(3)
rows = 2000
table = pd.DataFrame({"age": random.integers(18, 80, rows), "city": random.choice(["Oslo", "Rome", "Lima"], rows), "income": random.normal(50, 20, rows)})
score = 0.08 * (table["age"] - 50) + (table["city"] == "Rome") * 1.5 + 0.05 * (table["income"] - 50)
table["bought"] = np.where(score + random.logistic(size=rows) > 0, "yes", "no")
table.to_csv(folder / "sales.csv", index=False)


def search(trials):
    """Returns how many trials the study has then, how many were stopped early, and its best loss."""
    command = [sys.executable, EXAMPLE, folder / "sales.csv", "--target", "bought", "--trials", str(trials), "--startup", "2", "--out", folder / "models/sales"]
    ended = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": sys.path[0]}, check=False)
    found = re.search(r"^(\d+) trials, (\d+) stopped early; best evaluation loss ([\d.]+) with", ended.stdout, re.M)
    if found is None:
        raise SystemExit(f"the search printed no result:\n{ended.stdout}\n{ended.stderr}")
    return int(found[1]), int(found[2]), float(found[3])


trials, _, loss = search(6)
again, pruned, better = search(8)
rate = (table["bought"] == "yes").mean()
constant = -rate * np.log(rate) - (1 - rate) * np.log(1 - rate)
print(f"{trials} and {again} trials, {pruned} stopped early; loss {loss} and {better}, of a constant {constant:.4f}")
assert (trials, again) == (6, 14)
assert pruned > 0
assert better < constant - 0.05

import downpour  # noqa: E402

probability = downpour.Model.load(folder / "models/sales").predict_proba(table.drop(columns="bought"))[:, 1]
held_out = pd.Series(range(rows)).sample(frac=0.2, random_state=1)  # as the example does
lost = -np.where(table["bought"] == "yes", np.log(probability), np.log(1 - probability))
print(f"logloss of the model that was kept, on the rows held out: {lost[held_out].mean():.4f}")
assert abs(lost[held_out].mean() - better) < 1e-3
