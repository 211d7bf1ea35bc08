"""Builds or installs rival programs in build/peers, and keeps them there for the next run."""
import os
import shutil
import sys

from .frame import Broken, NotRun
from .lab import CHECKOUT

VW = {"vowpalwabbit": "vowpalwabbit"}                               # module: package
TENSORFLOW = {"tensorflow": "tensorflow-cpu", "tf_keras": "tf-keras"}


def venv_python(lab, packages):
    """Returns a Python that has `packages`. Installs the missing ones."""
    python = lab.peers_build / "venv/bin/python"

    def install():
        have = "import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))"
        if python.exists() and lab.run("peers", [python, "-c", have, *packages], 60).code == 0:
            return python
        if not python.exists():
            made = lab.run("peers", [sys.executable, "-m", "venv", python.parent.parent], 120)
            if made.code != 0:
                raise NotRun(f"python3 -m venv failed (Debian: python3-venv): {_last(made)}")
        try:
            installed = lab.run("peers", [python, "-m", "pip", "install", "--quiet", *packages.values()], 1800)
        except Broken as error:
            raise NotRun(str(error)) from None
        if installed.code != 0:
            raise NotRun(f"pip can't install {' '.join(packages.values())}: {_last(installed)}")
        return python

    return lab.once(("venv", *packages), install)


def _last(ended):
    return next(iter((ended.err.strip() or ended.out.strip()).splitlines()[-1:]), "no output")


def compiled(lab, source, *flags):
    """Returns the program of one of the peers' C++ files. Compiles it again if the source is newer."""
    path = lab.peer(source)
    program = lab.peers_build / path.stem

    def compile_it():
        if program.exists() and program.stat().st_mtime > path.stat().st_mtime:
            return program
        lab.peers_build.mkdir(parents=True, exist_ok=True)
        ended = lab.run("peers", ["g++", "-std=c++17", "-O3", "-march=native", "-w", path, "-o", program, "-pthread", *flags], 300)
        if ended.code != 0:
            raise NotRun(f"{path.name} does not compile here: {_last(ended)}")
        return program

    return lab.once(("compiled", source), compile_it)


def _kept(folder, make):
    """Returns `folder`. The first call fills it with make(temporary folder), so that it is complete or does not exist."""
    if not folder.exists():
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        make(partial)
        partial.rename(folder)
    return folder


def synth_lr_data(lab):
    """Returns a folder with {train,test}.{svm,vw}: 2,000,000 and 200,000 rows from the peers' own generator."""
    generator = compiled(lab, "single-machine/gen_synth.cc")

    def make(folder):
        made = lab.run("peers", [generator, folder, 2_000_000, 200_000], 1200).expect()
        (folder / "best.txt").write_text(made.out)

    return _kept(lab.peers_build / "synth-lr", make)


WD_ROWS = 2_000_000


def zipf_clicks(lab):
    """Returns a folder with train.tsv in Criteo's format. TensorFlow's script draws ids, numbers and labels."""
    models = lab.peer("tensorflow/models.py")
    python = venv_python(lab, TENSORFLOW)
    script = CHECKOUT / "tools/verify_rows/zipf_clicks.py"

    def make(folder):
        lab.run("peers", [python, script, models.parent, folder / "train.tsv", WD_ROWS], 1200).expect()

    return _kept(lab.peers_build / f"zipf-clicks-{WD_ROWS}", make)


def warm(path):
    """Writes a file to the disk and reads it once, so that neither side pays for write-back or for a cold cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        while file.read(1 << 24):
            pass
