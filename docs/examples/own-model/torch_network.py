"""A PyTorch network whose parameters and embeddings are on Downpour's ps.

    python torch_network.py                 # starts the chief and one ps on this machine
    python torch_network.py HOST:PORT KEYS  # joins a running job as one more worker
"""

import pathlib
import sys
import time

import downpour as dp
import torch

network = torch.nn.Sequential(
    torch.nn.Linear(160, 64), torch.nn.ReLU(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))


def train(ps: dp.Client) -> None:
    start, records = time.monotonic(), 0
    for batch in ps.batches():
        params = {name: torch.from_numpy(values).requires_grad_(batch.training)
                  for name, values in ps.pull(batch).items()}
        rows = torch.from_numpy(batch.bag("emb").rows.astype("int64"))
        # The gradient of index_select is faster than that of torch.nn.functional.embedding.
        wide, embeddings = (params[name].index_select(0, rows).reshape(batch.records, -1) for name in ("wide", "emb"))
        dense = {name: values for name, values in params.items() if name[0].isdigit()}
        logits = torch.func.functional_call(network, dense, embeddings)[:, 0]
        logits = logits + wide.sum(1)
        if not batch.training:
            ps.push(batch, predictions=logits)
            continue
        labels = torch.tensor(batch["label"])
        torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum").backward()
        ps.push(batch, {name: values.grad for name, values in params.items()}, predictions=logits)
        records += batch.records
    seconds = time.monotonic() - start
    print(f"{records} examples in {seconds:.1f} s: {records / seconds:.0f} examples/s")


if __name__ == "__main__":
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        client = dp.Client(sys.argv[1], keys=sys.argv[2] if len(sys.argv) > 2 else None)
    else:
        client = dp.Client.local(pathlib.Path(__file__).with_name("frappe.toml"), fresh=True)
    with client as ps:
        train(ps)
    for evaluation in client.summary.get("evaluations", []):
        print(f"epoch {evaluation['epochs_trained']}: AUC {evaluation['outputs']['used']['auc']:.4f}")
