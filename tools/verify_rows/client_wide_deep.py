"""Wide & Deep of PyTorch, whose parameters are on Downpour's ps.

client_wide_deep.py data FOLDER ROWS        writes ids.npy, numbers.npy and y.npy: 26 ids, 13 numbers and a label a row
client_wide_deep.py train ADDRESS [KEYS]    joins a job as a client, and prints how long it pulled, computed and pushed

Needs NumPy, and to train PyTorch and the Python package.
"""
import json
import sys
import time

import numpy as np

FIELDS, NUMBERS = 26, 13
EXPONENT, IDS = 1.1, 1_000_000


def write_data(folder, rows):
    rng = np.random.default_rng(1)
    ranks = np.cumsum(np.arange(1.0, IDS + 1) ** -EXPONENT)
    ids = np.searchsorted(ranks, rng.random((rows, FIELDS)) * ranks[-1]) + np.arange(FIELDS) * IDS
    numbers = rng.standard_normal((rows, NUMBERS), np.float32)
    np.save(f"{folder}/ids.npy", ids.astype(np.int64))
    np.save(f"{folder}/numbers.npy", numbers)
    np.save(f"{folder}/y.npy", (rng.random(rows) < 0.25 + 0.5 * (numbers[:, 0] > 0)).astype(np.float32))


def train(address, keys=None):
    import downpour as dp
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)

    def gradients(rows, numbers, labels, params):
        """Returns the gradients of the sum of the losses by each parameter, and the logits."""
        given = {name: torch.from_numpy(values).requires_grad_() for name, values in params.items()}
        # Its gradient is faster than that of embedding.
        wide, embeddings = (given[name].index_select(0, rows).reshape(len(labels), -1) for name in ("wide", "emb"))
        x = torch.cat([embeddings, numbers], 1)
        for layer in (0, 1):
            x = F.relu(F.linear(x, given[f"kernel{layer}"], given[f"bias{layer}"]))
        logits = F.linear(x, given["kernel2"], given["bias2"])[:, 0] + numbers @ given["line"]
        logits = logits + wide.sum(1)
        F.binary_cross_entropy_with_logits(logits, labels, reduction="sum").backward()
        return {name: values.grad for name, values in given.items()}, logits

    spent = dict.fromkeys(("pull", "compute", "push"), 0.0)
    records = 0
    with dp.Client(address, keys=keys) as ps:
        start = time.monotonic()
        for batch in ps.batches():
            times = [time.monotonic()]
            params = ps.pull(batch)
            times.append(time.monotonic())
            rows = torch.from_numpy(batch.bag("emb").rows.astype(np.int64))
            numbers, labels = (torch.from_numpy(batch[name].copy()) for name in ("numbers", "y"))
            grads, logits = gradients(rows, numbers, labels, params)
            times.append(time.monotonic())
            ps.push(batch, grads, predictions=logits)
            times.append(time.monotonic())
            for i, name in enumerate(spent):
                spent[name] += times[i + 1] - times[i]
            records += batch.records
    print(json.dumps({"records": records, "seconds": time.monotonic() - start, **spent}))


if __name__ == "__main__":
    if sys.argv[1] == "data":
        write_data(sys.argv[2], int(sys.argv[3]))
    else:
        train(*sys.argv[2:])
