"""click_ids.py OUT.npy ROWS FIELDS IDS: writes rows of integers, an id for each field and a label, to train models of clicks.

The ids of field f are in [f * IDS, (f + 1) * IDS). Their frequencies have a Zipf distribution with exponent 1.1, and no order. The
label depends on a hidden weight of each id. Needs NumPy.
"""
import sys

import numpy as np

EXPONENT, BIAS, DEVIATION = 1.1, -1.0, 0.3


def main():
    rows, fields, ids = map(int, sys.argv[2:])
    rng = np.random.default_rng(1)
    ranks = np.cumsum(np.arange(1.0, ids + 1) ** -EXPONENT)
    out, logit = np.empty((rows, fields + 1), np.int64), np.full(rows, BIAS)
    for field in range(fields):
        rank = np.searchsorted(ranks, rng.random(rows) * ranks[-1])
        out[:, field] = rng.permutation(ids)[rank] + field * ids
        logit += rng.normal(0, DEVIATION, ids)[rank]
    out[:, fields] = rng.random(rows) < 1 / (1 + np.exp(-logit))
    np.save(sys.argv[1], out)


main()
