"""torch_models.py ROWS.npy MODEL FIELDS IDS UNITS: trains a click model of Downpour's presets with PyTorch, for one epoch.

ROWS.npy has FIELDS + 1 integers in a row: an id below FIELDS * IDS for each field, and the label. UNITS is a list such as 64,32.
The embeddings have sparse gradients. The linear weights of Wide & Deep and DeepFM are the first column of the same table, so that
one lookup and one sparse update suffice. Trains with torch.compile and without it, each from new parameters and after
a warm-up that is not timed. Prints JSON. Needs PyTorch.
"""
import json
import os
import sys
import time

import numpy as np
import torch
from torch import nn

DIM, BATCH, RANK, DEPTH = 16, 2048, 32, 2
LEARNING_RATE, ACCUMULATOR, EPSILON = 0.02, 0.1, 1e-7
WARM_STEPS = 10
ROWS, MODEL, FIELDS, IDS, UNITS = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), [int(n) for n in sys.argv[5].split(",")]
WIDE = MODEL in ("wide_deep", "deepfm")
WIDTH, PAIRS = FIELDS * DIM, FIELDS * (FIELDS - 1) // 2


def tower(width):
    """Dense layers with relu and a linear one for the output, with the initial values of the presets."""
    layers, inputs = [], width
    for units in UNITS:
        layers += [nn.Linear(inputs, units), nn.ReLU()]
        nn.init.kaiming_uniform_(layers[-2].weight, nonlinearity="relu")
        inputs = units
    layers.append(nn.Linear(inputs, 1))
    nn.init.xavier_uniform_(layers[-1].weight)
    for layer in layers[::2]:
        nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Network(nn.Module):
    """The layers above the table's rows. forward() returns the mean logistic loss of a batch."""

    def __init__(self):
        super().__init__()
        self.tower = tower(WIDTH + (PAIRS if MODEL == "dlrm" else 0))
        if WIDE:
            self.bias = nn.Parameter(torch.zeros(1))
        if MODEL == "dcn_v2":
            self.down = nn.ModuleList(nn.Linear(WIDTH, RANK, bias=False) for _ in range(DEPTH))
            self.up = nn.ModuleList(nn.Linear(RANK, WIDTH) for _ in range(DEPTH))
            self.crossed = nn.Linear(WIDTH, 1)
            for layer in (*self.down, *self.up, self.crossed):
                nn.init.xavier_uniform_(layer.weight)
            for layer in (*self.up, self.crossed):
                nn.init.zeros_(layer.bias)
        if MODEL == "dlrm":
            self.register_buffer("pairs", torch.tril_indices(FIELDS, FIELDS, -1))

    def forward(self, rows, labels):
        vectors = rows[:, :, 1:] if WIDE else rows
        flat = vectors.reshape(-1, WIDTH)
        if MODEL == "dlrm":
            products = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
            logit = self.tower(torch.cat([flat, products], 1))
        else:
            logit = self.tower(flat)
        if WIDE:
            logit = logit + self.bias + rows[:, :, :1].sum(1)
        if MODEL == "deepfm":
            logit = logit + (vectors.sum(1).square() - vectors.square().sum(1)).sum(1, keepdim=True) / 2
        if MODEL == "dcn_v2":
            x = flat
            for down, up in zip(self.down, self.up):
                x = flat * up(down(x)) + x
            logit = logit + self.crossed(x)
        return nn.functional.binary_cross_entropy_with_logits(logit[:, 0], labels)


def multiplications(network):
    """The multiply-adds of the matrix products of an example, forward."""
    dense = sum(parameter.numel() for parameter in network.parameters() if parameter.dim() == 2)
    return dense + (PAIRS * DIM if MODEL == "dlrm" else 0)


def peak():
    """Floating-point operations per second of a product of two matrices of 2048 x 2048; the best of ten."""
    a, b = torch.rand(2048, 2048), torch.rand(2048, 2048)

    def seconds():
        begin = time.perf_counter()
        torch.mm(a, b)
        return time.perf_counter() - begin

    return 2 * 2048**3 / min(seconds() for _ in range(10))


def train(ids, labels, table, compiled):
    """Trains for one epoch. Returns examples/s, CPU seconds of an example, the mean loss and the network."""
    torch.manual_seed(1)
    network = Network()
    loss_of = torch.compile(network) if compiled else network
    start = {name: value.clone() for name, value in network.state_dict().items()}

    def epoch(batches):
        with torch.no_grad():
            table.weight.uniform_(-0.05, 0.05)
            if WIDE:
                table.weight[:, 0] = 0
        network.load_state_dict(start)
        options = {"lr": LEARNING_RATE, "initial_accumulator_value": ACCUMULATOR, "eps": EPSILON}
        optimizers = [torch.optim.Adagrad(table.parameters(), **options), torch.optim.Adagrad(network.parameters(), fused=True, **options)]
        total = torch.zeros(())
        begin, cpu = time.perf_counter(), time.process_time()
        for i in range(0, batches * BATCH, BATCH):
            loss = loss_of(table(ids[i:i + BATCH]), labels[i:i + BATCH])
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            total += loss.detach()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        return {"ex_s": batches * BATCH / seconds, "cpu_us": cpu / (batches * BATCH) * 1e6, "loss": total.item() / batches}

    epoch(WARM_STEPS)
    return epoch(len(labels) // BATCH), network


def main():
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    rows = torch.from_numpy(np.load(ROWS))
    ids, labels = rows[:, :FIELDS].contiguous(), rows[:, FIELDS].float()
    table = nn.Embedding(FIELDS * IDS, DIM + WIDE, sparse=True)
    found = {}
    for name in ("compiled", "eager"):
        found[name], network = train(ids, labels, table, name == "compiled")
    dense = sum(parameter.numel() for parameter in network.parameters())
    print(json.dumps({**found, "dense": dense, "sparse": ids.unique().numel() * (DIM + WIDE), "macs": multiplications(network), "peak": peak()}))


main()
