"""Builds the wheel: the Python package, and the folder that packaging/build-wheel has staged.

This is a build backend as PEP 517 defines it. It needs only the standard library. `pip install` runs
packaging/build-wheel --stage, which first checks what it needs.
"""

import base64
import hashlib
import pathlib
import re
import stat
import subprocess
import sys
import zipfile

PYTHON = pathlib.Path(__file__).resolve().parent.parent
ROOT = PYTHON.parent
STAGE = ROOT / "build" / "wheel" / "stage"  # bin, lib, licenses
PROGRAMS = ("downpour", "downpour-ps", "downpour-worker", "downpour-chief")
TAG = "py3-none-manylinux_2_34_x86_64"
EXECUTABLE = 0o755
DATE = (1980, 1, 1, 0, 0, 0)  # the same inputs give the same bytes

# Finds the package without importing it, because the import would load the library and NumPy.
SCRIPT = """#!python
import importlib.util
import os
import sys

name = "{name}"
package = importlib.util.find_spec("downpour").submodule_search_locations[0]
os.execv(os.path.join(package, "bin", name), [name, *sys.argv[1:]])
"""


def version():
    header = (ROOT / "shared/base/version.h").read_text()
    return re.search(r'kBuildVersion = "(.*)"', header).group(1)


def metadata(licenses):
    return "\n".join([
        "Metadata-Version: 2.4",
        "Name: downpour",
        f"Version: {version()}",
        "Summary: Training of models with very large sparse variables on parameter servers",
        "License-Expression: Apache-2.0",
        *(f"License-File: {name}" for name in licenses),
        "Requires-Python: >=3.9",
        "Requires-Dist: numpy>=1.21",
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "docs/python.md").read_text(),
    ])


class Wheel:
    """Writes the files of a wheel and their record."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.record = []

    def add(self, name, data, mode=0o644):
        info = zipfile.ZipInfo(name, DATE)
        info.external_attr = (stat.S_IFREG | mode) << 16
        self.zip.writestr(info, data, zipfile.ZIP_DEFLATED)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(data)}\n")

    def close(self, info):
        name = f"{info}/RECORD"
        self.zip.writestr(zipfile.ZipInfo(name, DATE), "".join(self.record) + f"{name},,\n")
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    status = subprocess.run([ROOT / "packaging/build-wheel", "--stage"]).returncode
    if status != 0:
        sys.exit(status)  # it has said why
    return pack(wheel_directory)


def pack(wheel_directory):
    """Packs the staged files. Returns the name of the wheel."""
    name = f"downpour-{version()}"
    info = f"{name}.dist-info"
    wheel = Wheel(pathlib.Path(wheel_directory) / f"{name}-{TAG}.whl")
    sources = [*(PYTHON / "downpour").rglob("*.py"), PYTHON / "downpour/py.typed"]
    for source in sorted(sources):
        wheel.add(source.relative_to(PYTHON).as_posix(), source.read_bytes())
    for library in sorted((STAGE / "lib").iterdir()):
        wheel.add(f"downpour/lib/{library.name}", library.read_bytes(), EXECUTABLE)
    for program in PROGRAMS:  # copies, because a wheel has no links
        wheel.add(f"downpour/bin/{program}", (STAGE / "bin/downpour").read_bytes(), EXECUTABLE)
        wheel.add(f"{name}.data/scripts/{program}", SCRIPT.format(name=program).encode(), EXECUTABLE)
    licenses = [ROOT / "LICENSE", *sorted((STAGE / "licenses").iterdir())]
    for text in licenses:
        wheel.add(f"{info}/licenses/{text.name}", text.read_bytes())
    wheel.add(f"{info}/METADATA", metadata([text.name for text in licenses]).encode())
    wheel.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: downpour\nRoot-Is-Purelib: false\nTag: {TAG}\n".encode())
    wheel.close(info)
    return f"{name}-{TAG}.whl"


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("downpour has no sdist: install it from a checkout, `pip install ./python`")
