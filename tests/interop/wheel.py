#!/usr/bin/env python3
"""Builds the wheel, installs it in an empty environment without a compiler, and uses it as a user does.

wheel.py FOLDER. Exits with 77 if the packages that build the wheel are missing, or if pip can't fetch what the wheel or this test needs.
PyTorch takes gigabytes, so a part with it runs only if DOWNPOUR_TORCH names a Python that has it.
"""

import http.server
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import threading
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL_BYTES_MAX = 15_000_000
SYSTEM_LIBRARIES = {"linux-vdso", "libc", "libm", "libpthread", "libdl", "librt", "ld-linux-x86-64", "libgcc_s"}
PROGRAMS = ("downpour", "downpour-ps", "downpour-worker", "downpour-chief")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def output(*command, env=None, cwd=None):
    done = subprocess.run(command, env=env, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


def python_with(folder, *packages):
    """Makes a virtual environment that has the packages, or skips the test. Returns its folder of programs."""
    programs = folder / "bin"
    if not (programs / "pip").exists():
        venv.create(folder, with_pip=True)
    done = subprocess.run([programs / "pip", "install", "-q", *packages], text=True, capture_output=True)
    if done.returncode != 0:
        skip(f"pip can't install {' '.join(map(str, packages))}: {done.stderr.strip()[-300:]}")
    return programs


def build_wheel():
    done = subprocess.run([ROOT / "packaging/build-wheel"], text=True, stdout=subprocess.PIPE)
    if done.returncode == 69:
        skip("packaging/build-wheel lacks packages")
    assert done.returncode == 0, "packaging/build-wheel failed"
    return pathlib.Path(done.stdout.strip().splitlines()[-1].split()[0])


def check_wheel(wheel, folder):
    size = wheel.stat().st_size
    assert size <= WHEEL_BYTES_MAX, f"the wheel has {size} bytes"
    auditwheel = python_with(folder.parent / "auditwheel", "auditwheel") / "auditwheel"
    shown = output(auditwheel, "show", wheel)
    assert "manylinux_2_34_x86_64" in re.sub(r"\s+", " ", shown).split("is consistent with")[1], shown


def check_libraries(package):
    library = package / "lib/libdownpour.so"
    for binary in [library, package / "bin/downpour"]:
        names = {line.split()[0] for line in output("ldd", binary).splitlines()}
        ours = {name for name in names if name.startswith(("libdownpour.", "libgomp-downpour."))}
        others = {name.split("/")[-1].split(".so")[0] for name in names - ours}
        assert others <= SYSTEM_LIBRARIES, f"{binary} needs {others - SYSTEM_LIBRARIES}"
    exported = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()}
    assert exported and all(name.startswith("dp_") for name in exported), exported


def version_of_source():
    return re.search(r'kBuildVersion = "(.*)"', (ROOT / "shared/base/version.h").read_text()).group(1)


def check_programs(programs, env, folder):
    assert output(programs / "downpour", "--version", env=env).strip() == version_of_source()
    for name in PROGRAMS[1:]:  # each name is a program of its own
        assert f"{name} " in output(programs / name, "--help", env=env)
    output(programs / "downpour", "synth", "clicks.tsv", "--rows", "5000", "--ids", "20", env=env, cwd=folder)
    said = output(programs / "downpour", "train", "clicks.tsv", "--ps", "1", "--workers", "1", "--epochs", "1",
                  env=env, cwd=folder)
    assert "balanced and identical" in said, said


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def check_tls(programs, env, folder):
    """A store with a certificate of its own is refused, and accepted if AWS_CA_BUNDLE names the certificate."""
    if not shutil.which("openssl"):
        print("note: without the program openssl no certificate can be made: TLS is not tested")
        return
    output("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
           "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", cwd=folder)
    store = http.server.HTTPServer(("127.0.0.1", 0), Silent)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    store.socket = context.wrap_socket(store.socket, server_side=True)
    threading.Thread(target=store.serve_forever, daemon=True).start()
    env = env | {"AWS_ENDPOINT_URL": f"https://127.0.0.1:{store.server_port}"}
    trusted = {"AWS_CA_BUNDLE": str(folder / "cert.pem")}
    for more, status, error in (({}, 74, "certificate"), (trusted, 66, "no such object")):
        done = subprocess.run([programs / "downpour", "data", "count", "s3://bucket/a.tsv"], env=env | more,
                              text=True, capture_output=True)
        assert done.returncode == status and error in done.stderr, done


IMPORT = "import downpour; assert downpour.__version__ == downpour.version() == '{version}', downpour.__version__"
# Loads an OpenMP runtime for all libraries that are loaded later, as PyTorch does with its own.
OPENMP = "import ctypes, os; ctypes.CDLL('libgomp.so.1', mode=os.RTLD_GLOBAL)"
TORCH = "import torch; a = torch.rand(999, 999); assert (a @ a).shape == (999, 999)"
# Trains in the Python process, with two threads for each batch.
TRAIN = """
import ctypes, pathlib
words = "downpour train clicks.tsv --fresh --epochs 1 --threads 2 --set train.in_flight=1 --quiet".split()
words = [word.encode() for word in words]
library = ctypes.CDLL(str(pathlib.Path(downpour.__file__).parent / "lib/libdownpour.so"))
assert library.dp_run_program(len(words), (ctypes.c_char_p * (len(words) + 1))(*words)) == 0
"""


def check_imports(python, env, other, folder):
    """Imports the package before and after another one that uses OpenMP, and trains in the same process."""
    ours = IMPORT.format(version=version_of_source())
    for first, second in ((ours, other), (other, ours)):
        output(python, "-c", f"{first}\n{second}\n{TRAIN}\n{other}", env=env, cwd=folder)


def main(folder):
    folder = pathlib.Path(folder).resolve()
    wheel = build_wheel()
    check_wheel(wheel, folder)
    programs = python_with(folder / "venv", "--force-reinstall", "--no-deps", wheel)
    python_with(folder / "venv", "numpy")
    env = {"PATH": str(programs), "HOME": str(folder)}  # no compiler
    found = output(programs / "python", "-c", "import downpour; print(downpour.__path__[0])", env=env)
    package = pathlib.Path(found.strip())
    check_libraries(package)
    check_programs(programs, env, folder)
    check_tls(programs, env, folder)
    check_imports(programs / "python", env, OPENMP, folder)
    if python := os.environ.get("DOWNPOUR_TORCH"):
        output(programs / "pip", "install", "-q", "--upgrade", "--no-deps", "--target", folder / "alone", wheel)
        check_imports(python, env | {"PYTHONPATH": str(folder / "alone")}, TORCH, folder)
    print(f"1 passed, 0 failed ({wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB)")


if __name__ == "__main__":
    main(sys.argv[1])
