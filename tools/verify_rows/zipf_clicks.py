"""zipf_clicks.py MODELS_DIR OUT ROWS: writes Criteo's format with the ids, numbers and labels of the peers' models.py.

Needs NumPy and TensorFlow. It calls models.zipf_ids for 24 bits, so that a trainer that hashes the ids to 2^20 has as many
distinct keys as TensorFlow.
"""
import sys

import numpy as np

sys.path.insert(0, sys.argv[1])
import models  # noqa: E402

CHUNK_ROWS = 50_000
ID_CHARS = 8
NUMBER_CHARS = 6  # "-1.234"; a zero byte means no sign and is removed at the end
HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
TAB, NEWLINE, MINUS, DOT, ZERO = b"\t\n-.0"


def number_chars(x):
    """Converts floats [rows, fields] to characters [rows, fields, NUMBER_CHARS] with three decimals."""
    thousandths = np.minimum(np.rint(np.abs(x) * 1000).astype(np.int32), 9999)
    chars = np.empty((*x.shape, NUMBER_CHARS), np.uint8)
    chars[..., 0] = np.where((x < 0) & (thousandths > 0), MINUS, 0)
    chars[..., 1] = ZERO + thousandths // 1000
    chars[..., 2] = DOT
    for place, unit in ((3, 100), (4, 10), (5, 1)):
        chars[..., place] = ZERO + thousandths // unit % 10
    return chars


def id_chars(ids):
    shifts = np.arange(4 * (ID_CHARS - 1), -1, -4)
    return HEX[(ids[..., None] >> shifts) & 15]


def lines(rng, rows):
    ids = models.zipf_ids(rng, rows, 1 << 24)
    numbers = rng.standard_normal((rows, models.NUMERIC), dtype=np.float32)
    labels = rng.random(rows) < 0.25 + 0.5 * (numbers[:, 0] > 0)
    fields = [number_chars(numbers), id_chars(ids)]
    with_tabs = [np.concatenate([np.full((*f.shape[:2], 1), TAB, np.uint8), f], axis=2).reshape(rows, -1) for f in fields]
    text = np.concatenate([(ZERO + labels).astype(np.uint8)[:, None], *with_tabs, np.full((rows, 1), NEWLINE, np.uint8)], axis=1)
    return text[text != 0].tobytes()


def main():
    out, rows = sys.argv[2], int(sys.argv[3])
    rng = np.random.default_rng(0)
    with open(out, "wb") as file:
        for begin in range(0, rows, CHUNK_ROWS):
            file.write(lines(rng, min(CHUNK_ROWS, rows - begin)))


main()
