"""Rows about inputs that claim to be larger than they are. The real command must report one clear error, in bounded memory
and time."""
import ctypes
import ctypes.util
import http.server
import os
import re
import struct
import threading
import time
from pathlib import Path

from .frame import Broken, NotRun, at_most, is_true, row

ROW = "hardening-input"
MEMORY_MIB = 256       # in addition to the memory of a job with three lines of data
SECONDS = 60
ERROR_CODES = range(64, 79)
JOB = """\
run_dir = "{name}-run"
data = {{ source = {source}, format = "{format}"{more} }}
model = {{ preset = "logistic_regression", target = "{target}" }}
train = {{ epochs = 1, batch_size = 256 }}
"""


def _job(folder, name, source, format_, more="", target="label"):
    path = folder / f"{name}.toml"
    path.write_text(JOB.format(name=name, source=source, format=format_, more=more, target=target))
    return path


def _ended(lab, what, path, base_mib, env=None):
    """Yields the checks of one command: exit status, message, memory and time."""
    ended = lab.run(ROW, [lab.program(), "train", path, "--quiet"], 10 * SECONDS, env)
    errors = re.findall(r"^error: (.*)$", ended.err, re.MULTILINE)
    yield is_true(f"{what}: an error of the input", ended.code in ERROR_CODES and len(errors) == 1 and "hint:" in ended.err,
                  "exit 64 to 78, one error", f"exit {ended.code}, {len(errors)} errors", (errors or [ended.err.strip()[-200:]])[0][:200])
    yield at_most(f"{what}: memory above a small job's", ended.peak_bytes / 2**20 - base_mib, MEMORY_MIB, " MiB")
    yield at_most(f"{what}: until it ends", ended.wall_s, SECONDS, " s")


# ---- files -------------------------------------------------------------------------------------------------------------

def _sparse(path, head, size):
    """Writes a file of `size` bytes: `head`, followed by a hole."""
    with open(path, "wb") as file:
        file.write(head)
        try:
            file.truncate(size)
        except OSError as error:
            raise NotRun(f"{path.parent} takes no file of {size} bytes: {error}") from None


def _npy_head(shape):
    text = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def _nested_line(size):
    """Returns a JSON line of about `size` bytes of nested arrays."""
    depth = size // 2
    return b'{"label": 1, "v": ' + b"[" * depth + b"]" * depth + b"}\n"


def _files(folder, memory_folder):
    """Yields (description, path to train) of each file."""
    deep = folder / "deep.toml"
    deep.write_text(".".join(["a"] * 10_000) + " = 1\n")
    yield "a key of 10,000 levels", deep
    _sparse(memory_folder / "sparse.tsv", b"0\t1\t2\n1\t2\t1\n" * (12 << 16), 2**50)
    yield "a sparse .tsv of 1 PiB", memory_folder / "sparse.tsv"
    head = _npy_head(f"({2**58},)")
    for name in ("x.npy", "label.npy"):
        _sparse(memory_folder / name, head, len(head) + 2**58)
    yield ".npy arrays of 2^58 rows", _job(folder, "npy", f'"{memory_folder}"', "npy",
                                          ', fields = { x = { type = "float32" }, label = { type = "float32" } }')
    lines = folder / "nested.jsonl"
    lines.write_bytes(_nested_line(15_000_000))
    yield "a JSON line of 15 MB of nested arrays", lines
    yield "the same as a job's data", _job(folder, "jsonl", f'"{lines}"', "jsonl",
                                           ', fields = { v = { type = "float32", shape = [3] }, label = { type = "float32" } }')


# ---- objects -----------------------------------------------------------------------------------------------------------

class _Store(http.server.ThreadingHTTPServer):
    """An object store whose objects have `claimed` bytes. It sends `bytes_a_second` bytes per second (0: no limit)."""
    daemon_threads = True

    def __init__(self, claimed, bytes_a_second=0):
        super().__init__(("127.0.0.1", 0), _Answer)
        self.claimed, self.bytes_a_second = claimed, bytes_a_second

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}", "no_proxy": "127.0.0.1"}

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        """Ignores clients that close the connection."""


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    LINE = b"1 1:1 2:1 3:1\n"

    def do_GET(self):
        begin, last = (int(number) for number in re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"]).groups())
        last = min(last, self.server.claimed - 1)
        body = (self.LINE * ((last - begin) // len(self.LINE) + 2))[begin % len(self.LINE):][:last - begin + 1]
        self.send_response(206)
        self.send_header("ETag", '"tag"')
        self.send_header("Content-Range", f"bytes {begin}-{last}/{self.server.claimed}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.bytes_a_second == 0:
            self.wfile.write(body)
            return
        for at in range(len(body)):
            self.wfile.write(body[at:at + 1])
            self.wfile.flush()
            time.sleep(1 / self.server.bytes_a_second)

    def log_message(self, *_):
        """Prints nothing."""


def _objects(lab, folder, base_mib):
    parts = ", ".join(f'"s3://bucket/part-{number}"' for number in range(50))
    for what, source, claimed, rate in (("50 objects of 1 PiB", f"[{parts}]", 2**50, 0),
                                        ("an object of 2^64 - 1 bytes", '"s3://bucket/part"', 2**64 - 1, 0),
                                        ("an object at 2 bytes a second", '"s3://bucket/part"', 2**20, 2)):
        name = what.split()[-1] + str(claimed.bit_length())
        with _Store(claimed, rate) as env:
            yield from _ended(lab, what, _job(folder, name, source, "libsvm"), base_mib, env)


# ---- checkpoints -------------------------------------------------------------------------------------------------------

def _xxh3(data):
    name = ctypes.util.find_library("xxhash")
    if name is None:
        raise NotRun("libxxhash is not installed: no manifest can be forged")
    function = ctypes.CDLL(name).XXH3_64bits
    function.argtypes, function.restype = (ctypes.c_char_p, ctypes.c_size_t), ctypes.c_uint64
    return function(data, len(data))


def _claim_image(checkpoints, size):
    """Makes the manifest of the newest checkpoint claim `size` bytes for the last image, and extends the file with a hole."""
    manifest = max(checkpoints.glob("manifest-*.dpm"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)])
    folder = checkpoints / manifest.name.removeprefix("manifest-").removesuffix(".dpm")
    image_file = next(folder.glob("*.ckpt"))
    images, offset = image_file.read_bytes(), 0
    while offset + (length := struct.unpack_from("<Q", images, offset + 48)[0]) < len(images):
        offset += length
    data = bytearray(manifest.read_bytes())
    at = data.find(struct.pack("<QQ", offset, length))
    if at < 0:
        raise Broken(f"{manifest} does not name the image at {offset} of {length} bytes")
    struct.pack_into("<Q", data, at + 8, size)
    struct.pack_into("<Q", data, 24, _xxh3(bytes(data[:24]) + bytes(data[32:])))
    manifest.write_bytes(data)
    os.truncate(image_file, offset + size)


def _checkpoint(lab, folder, base_mib):
    data, _ = lab.synth(ROW, "train.svm", 4000)
    job = _job(folder, "checkpoint", f'"{data}"', "libsvm")
    lab.run(ROW, [lab.program(), "train", job, "--quiet"], SECONDS).expect()
    _claim_image(folder / "checkpoint-run/checkpoints", 8 * 2**30)
    job.write_text(job.read_text().replace("epochs = 1", "epochs = 2"))
    yield from _ended(lab, "an image of 8 GiB in a manifest", job, base_mib)


@row(ROW, "files, objects and checkpoints that claim more than they hold")
def hardening_input(lab):
    folder = lab.row_folder(ROW)
    memory_folder = Path("/dev/shm") / f"downpour-verify-{os.getpid()}"
    memory_folder.mkdir()
    try:
        data, _ = lab.synth(ROW, "small.svm", 4000)
        small = lab.run(ROW, [lab.program(), "train", _job(folder, "small", f'"{data}"', "libsvm"), "--quiet"]).expect()
        base_mib = small.peak_bytes / 2**20
        for what, path in _files(folder, memory_folder):
            yield from _ended(lab, what, path, base_mib)
        yield from _objects(lab, folder, base_mib)
        yield from _checkpoint(lab, folder, base_mib)
    finally:
        for path in memory_folder.iterdir():
            path.unlink()
        memory_folder.rmdir()
