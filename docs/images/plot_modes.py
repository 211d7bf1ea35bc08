#!/usr/bin/env python3
"""Draws the plots of docs/modes.md from simulated training: modes-records.svg, modes-time.svg, modes-staleness.svg.

    pip install matplotlib && docs/images/plot_modes.py

The jobs are those of the row `staleness` of tools/verify. They run in build/plots.
"""
import sys
from pathlib import Path

import matplotlib

IMAGES = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(IMAGES.parent.parent / "tools"))
from verify_rows import lab as labs, staleness  # noqa: E402

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "downpour", "font.family": "sans-serif", "font.size": 9,
                            "axes.grid": True, "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
from matplotlib import pyplot  # noqa: E402

TITLES = {False: "8 equal workers", True: "one worker 10 × slower"}
SECONDS = (10, 20, 50, 100, 200, 500)
BOUNDS = (*staleness.BOUNDS, None)


def save(figure, name, panel):
    """Writes the figure with the legend of `panel` below all panels."""
    figure.tight_layout()
    figure.legend(*panel.get_legend_handles_labels(), loc="upper center", bbox_to_anchor=(0.5, 0), ncol=5, frameon=False)
    figure.savefig(IMAGES / name, metadata={"Date": None}, facecolor="white", bbox_inches="tight")


def draw_curves(curves, column, label, scale, name):
    """Draws test loss and AUC, one column of panels for equal workers and one with a slow worker."""
    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6), sharex=True, sharey="row")
    for (mode, slow), points in curves.items():
        x = [point[column] * scale for point in points]
        for at, value in ((0, 2), (1, 3)):
            panels[at, int(slow)].plot(x, [point[value] for point in points], marker=".", label=mode)
    for slow, title in TITLES.items():
        panels[0, int(slow)].set_title(title)
        panels[1, int(slow)].set_xlabel(label)
    if column == 1:
        for panel in panels.flat:
            panel.set_xscale("log")
            panel.set_xticks(SECONDS, map(str, SECONDS))
            panel.minorticks_off()
    panels[0, 0].set_ylabel("test logloss")
    panels[1, 0].set_ylabel("test AUC")
    save(figure, name, panels[0, 0])


def draw_bounds(found):
    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2))
    ticks = range(len(BOUNDS))
    for slow, title in TITLES.items():
        for at in (0, 1):
            panels[at].plot(ticks, [found[bound, slow][at] for bound in BOUNDS], marker="o", label=title)
    for panel, label in zip(panels, ("records per simulated second", "test AUC after 8 epochs")):
        panel.set_xticks(ticks, ["async" if bound is None else str(bound) for bound in BOUNDS])
        panel.set_xlabel("staleness")
        panel.set_ylabel(label)
    panels[0].set_ylim(bottom=0)
    save(figure, "modes-staleness.svg", panels[0])


def main():
    lab = labs.Lab()
    lab.folder = labs.CHECKOUT / "build/plots"
    curves = {(mode, slow): staleness.simulate(lab, settings, slow) for slow in TITLES for mode, settings in staleness.MODES.items()}
    for key, points in curves.items():
        print(*key, *(f"{value:.5g}" for value in points[-1]), flush=True)
    draw_curves(curves, 0, "thousand records", 1e-3, "modes-records.svg")
    draw_curves(curves, 1, "simulated seconds", 1, "modes-time.svg")
    found = {(bound, slow): staleness.bounded(lab, bound, slow) for bound in BOUNDS for slow in TITLES}
    for key, value in found.items():
        print(*key, *value, flush=True)
    draw_bounds(found)


main()
