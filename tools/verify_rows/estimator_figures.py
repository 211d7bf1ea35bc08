"""The Python package beside the same job from files, and beside LightGBM. Prints its figures as JSON.

    estimator_figures.py fit KIND FOLDER    an array in memory (numpy, arrow, csr); writes the same job for an .npy file to FOLDER/npy.toml
    estimator_figures.py adult ADULT SEEDS  a DataFrame with categories, beside LightGBM with its defaults
    estimator_figures.py parquet FOLDER ADULT  a Parquet file of 1 GB, beside pyarrow's scan; adult from Parquet and as a DataFrame
    estimator_figures.py tiny               the time of a small fit
"""
import json
import re
import statistics
import sys
import time
from pathlib import Path

import downpour
import numpy as np

ROWS, SOME, COLUMNS, EPOCHS = 2_000_000, 100_000, 32, 2


def memory_mb(key):
    """Returns VmRSS, the memory of this process, or VmHWM, its peak."""
    return int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def arrays(folder):
    """Returns the array whose last column is the label, from a file that is written once."""
    path = folder / "rows.npy"
    if not path.exists():
        random = np.random.default_rng(1)
        x = random.normal(size=(ROWS, COLUMNS)).astype("f4")
        y = x @ random.normal(size=COLUMNS).astype("f4") + random.normal(size=ROWS) > 0
        np.save(path, np.hstack([x, y[:, None].astype("f4")]))
    return path


def of_kind(kind, x):
    if kind == "csr":
        import scipy.sparse
        return scipy.sparse.csr_matrix(x)
    if kind == "arrow":
        import pyarrow
        return pyarrow.table({f"x{i}": np.ascontiguousarray(x[:, i]) for i in range(x.shape[1])})
    return x


def fit(kind, folder):
    """Trains from memory a job whose statistics are known. Prints the rows per second, and by how much of the data's size the
    peak memory has grown."""
    rows = np.load(arrays(folder))
    y = rows[:, COLUMNS].copy()
    x = of_kind(kind, np.ascontiguousarray(rows[:, :COLUMNS]))
    size = {"csr": lambda: x.data.nbytes + x.indices.nbytes, "arrow": lambda: x.nbytes}.get(kind, lambda: x.nbytes)() / 2 ** 20
    del rows
    some = downpour.Model("logistic_regression", epochs=EPOCHS, batch_size=512).fit(x[:SOME], y[:SOME])
    if kind == "numpy":
        write_npy_job(folder, some.description["job"])
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = memory_mb("VmRSS")
    model = downpour.Model(job=some.description["job"]).fit(x, y)
    seconds = sum(epoch["seconds"] for epoch in model.history)
    print(json.dumps({"rows_per_s": EPOCHS * ROWS / seconds, "grown": (memory_mb("VmHWM") - before) / size}))


def write_npy_job(folder, text):
    """Writes the job of a fit with the .npy file as its source."""
    text = text.replace('source = ["memory:1"]', f'source = "{folder}/rows.npy"').replace('format = "memory"', 'format = "npy"')
    text = re.sub(r"\n(header|skip_lines|trim|column) = .*", "", text).replace('name = "memory:1"\n', "")
    place = {"label": COLUMNS}
    text = re.sub(r"\[data\.fields\.([a-z]+)(\d*)(_\w+)?\]", lambda m: f'{m[0]}\ncolumn = "{place.get(m[1], m[2])}"', text)
    (folder / "npy.toml").write_text(text)


def adult_table(path):
    """Returns the columns of adult as numbers and categories, and whether the income is high."""
    import pandas
    frame = pandas.read_csv(path, header=None, skipinitialspace=True)
    y = frame.pop(14).str.startswith(">50K").to_numpy()
    for column in frame.select_dtypes(exclude="number"):
        frame[column] = frame[column].astype("category")
    return frame.rename(columns=lambda i: f"c{i}"), y


def adult(folder, seeds):
    import lightgbm
    from sklearn.metrics import log_loss, roc_auc_score

    x, y = adult_table(folder / "adult.data")
    x_test, y_test = adult_table(folder / "adult.test")
    for column in x.select_dtypes("category"):
        x_test[column] = x_test[column].astype(x[column].dtype)
    scores = {}
    for seed in range(1, seeds + 1):
        ours = downpour.Model(seed=seed, validation_fraction=0.1).fit(x, y).predict_proba(x_test)[:, 1]
        theirs = lightgbm.LGBMClassifier(verbose=-1, random_state=seed).fit(x, y).predict_proba(x_test)[:, 1]
        for name, p in (("downpour", ours), ("lightgbm", theirs)):
            scores.setdefault(name, []).append((roc_auc_score(y_test, p), log_loss(y_test, p)))
    print(json.dumps({name: np.mean(each, axis=0).tolist() for name, each in scores.items()}))


def parquet(folder, adult_folder):
    import pyarrow
    import pyarrow.parquet
    from downpour._table import table_of

    random = np.random.default_rng(1)
    path, rows = folder / "numbers.parquet", 5_000_000
    if not path.exists():
        columns = {f"x{i}": random.normal(size=rows) for i in range(25)}
        columns["city"] = np.array(["Oslo", "Rome", "Lima", "Bonn"])[random.integers(0, 4, rows)]
        columns["label"] = (columns["x0"] + random.normal(size=rows) > 0).astype("f4")
        pyarrow.parquet.write_table(pyarrow.table(columns), path)
        del columns
    seconds = {"pyarrow": [], "downpour": []}
    for _ in range(3):
        for name, read in (("pyarrow", pyarrow.parquet.read_table), ("downpour", lambda path: table_of(path, None).handle)):
            begun = time.perf_counter()
            read(path)
            seconds[name].append(time.perf_counter() - begun)
    model = downpour.Model("logistic_regression", epochs=1, batch_size=4096).fit(path, "label")
    x, y = adult_table(adult_folder / "adult.data")
    x.assign(income=np.where(y, "high", "low")).to_parquet(folder / "adult.parquet")
    same = [downpour.Model(epochs=2).fit(*data).predict_proba(x) for data in ((folder / "adult.parquet", "income"), (x, np.where(y, "high", "low")))]
    print(json.dumps({"megabytes": path.stat().st_size / 1e6, "rows": rows, "records": model.history[0]["records"],
                      "share": statistics.median(seconds["pyarrow"]) / statistics.median(seconds["downpour"]),
                      "same": bool((same[0] == same[1]).all())}))


def tiny():
    random = np.random.default_rng(1)
    x = random.normal(size=(40, 3)).astype("f4")
    y = (x[:, 0] > 0).astype(int)
    times = []
    for _ in range(20):
        begun = time.perf_counter()
        downpour.Model("logistic_regression").fit(x, y)
        times.append(1e3 * (time.perf_counter() - begun))
    print(json.dumps({"ms": statistics.median(times)}))


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "fit":
        fit(sys.argv[2], Path(sys.argv[3]))
    elif what == "adult":
        adult(Path(sys.argv[2]), int(sys.argv[3]))
    elif what == "parquet":
        parquet(Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        tiny()
