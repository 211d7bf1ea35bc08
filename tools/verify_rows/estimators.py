"""The Python package: arrays in memory beside the same job from files, and a DataFrame beside LightGBM."""
from .frame import at_least, at_most, figure, median, row
from .lab import CHECKOUT
from .peers import venv_python

SCRIPT = CHECKOUT / "tools/verify_rows/estimator_figures.py"
PACKAGES = {name: name for name in ("numpy", "scipy", "pyarrow")}
TABLES = {"numpy": "numpy", "pandas": "pandas", "sklearn": "scikit-learn", "lightgbm": "lightgbm"}


def _figures(lab, name, packages, *arguments):
    """Runs the script with the package of this checkout."""
    env = {"DOWNPOUR_LIBRARY": str(lab.library()), "PYTHONPATH": str(CHECKOUT / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    return lab.run(name, [venv_python(lab, packages), SCRIPT, *arguments], 900, env).expect().summary()


@row("python-memory", "logistic regression of 32 numbers a row: arrays in memory, against the same job from .npy")
def python_memory(lab):
    """The medians of three turns count. Peak memory is that of the process, beyond what it had with the data before the fit."""
    folder = lab.row_folder("python-memory")
    rates, grown = {}, {}
    for _ in range(3):
        for kind in ("numpy", "arrow", "csr"):
            fit = _figures(lab, "python-memory", PACKAGES, "fit", kind, folder)
            rates.setdefault(kind, []).append(fit["rows_per_s"])
            grown[kind] = fit["grown"]
        summary = lab.train("python-memory", str(folder / "npy.toml"), "--threads", 1).summary()
        rates.setdefault("npy", []).append(summary["records"] / summary["train_seconds"])
    for kind, share in grown.items():
        share_of_npy = median([a / b for a, b in zip(rates[kind], rates["npy"])])
        yield at_least(f"{kind}: rows/s, of .npy", share_of_npy, 0.9, " x", f"{figure(median(rates[kind]))} of {figure(median(rates['npy']))}; medians of 3 turns")
        yield at_most(f"{kind}: growth of the peak memory, of the size of the data", share, 0.9, " x", "a copy of the data would be 1")


@row("python-adult", "adult from a DataFrame with categories, beside LightGBM with its defaults; a tiny fit")
def python_adult(lab):
    folder = lab.data("adult/adult.data").parent
    scores = _figures(lab, "python-adult", TABLES, "adult", folder, 3)
    (auc, logloss), (their_auc, their_logloss) = scores["downpour"], scores["lightgbm"]
    yield at_least("test AUC", auc, 0.927, note=f"mean of 3 seeds; LightGBM {their_auc:.4f}")
    yield at_most("test logloss - LightGBM's", logloss - their_logloss, 0, note=f"{logloss:.4f} - {their_logloss:.4f}")
    yield at_most("fit of 40 rows", _figures(lab, "python-adult", TABLES, "tiny")["ms"], 50, " ms", "median of 20")
