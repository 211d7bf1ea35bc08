"""gloo_all_reduce.py RANK PORT FLOATS STEPS: all_reduce of torch.distributed with gloo, between two processes on loopback.

The process of rank 0 prints JSON: steps/s, and its CPU microseconds per step. Needs PyTorch.
"""
import json
import os
import sys
import time

import torch
from torch import distributed

RANK, PORT, FLOATS, STEPS = map(int, sys.argv[1:])
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(PORT), GLOO_SOCKET_IFNAME="lo")
torch.set_num_threads(1)
distributed.init_process_group("gloo", rank=RANK, world_size=2)
gradients, weights = torch.full((FLOATS,), 0.5), torch.zeros(FLOATS)


def step():
    gradients.fill_(0.5)
    distributed.all_reduce(gradients)
    weights.sub_(gradients, alpha=0.001)


for _ in range(10):
    step()
begin, cpu = time.perf_counter(), time.process_time()
for _ in range(STEPS):
    step()
seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
assert gradients[-1].item() == 1, "the sum is wrong"
if RANK == 0:
    print(json.dumps({"steps_s": STEPS / seconds, "cpu_us": cpu / STEPS * 1e6}))
distributed.destroy_process_group()
