"""Time a training step of each op beside torch's own layer of the same width.

    python benchmarks/train_step.py          (or: make bench)

A step is forward, the sum of the last states, and backward. The tests of the ops run
first: a wrong answer has no speed. Only the reference path exists so far, so these are
the seconds that a faster path has to beat. The result is
``benchmarks/results/train_step.json``: medians with the facts that explain them.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import torch

from skpararnn import __version__
from skpararnn.cells import CELLS

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "train_step.json"

SHAPES = [
    {"N": 32, "T": 24, "d_in": 4, "K": 32, "d_s": 2},
    {"N": 32, "T": 168, "d_in": 4, "K": 32, "d_s": 2},
    {"N": 32, "T": 168, "d_in": 4, "K": 16, "d_s": 8},
    {"N": 32, "T": 168, "d_in": 4, "K": 1, "d_s": 64},
]
# torch has no Light Recurrent Unit
TWINS = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
WARM_UP, REPEATS = 2, 9


def main():
    """Test, time every cell and shape, write the result, return the exit status."""
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/ops"], cwd=ROOT
    )
    if tested.returncode:
        return tested.returncode
    rows = [time_case(cell, shape) for shape in SHAPES for cell in CELLS]
    result = {
        "skpararnn": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dtype": "float32",
        "median_of": REPEATS,
        "rows": rows,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


def time_case(cell, shape):
    """One row of the result; also printed, as progress."""
    layer = TWINS.get(cell)
    x = torch.randn(shape["N"], shape["T"], shape["d_in"])
    ours = milliseconds(our_step(CELLS[cell], x, shape))
    theirs = layer and milliseconds(torch_step(layer, x, shape))
    sizes = " ".join(f"{name}={size}" for name, size in shape.items())
    beside = f"torch {theirs:8.2f} ms" if theirs else "torch has none"
    print(f"{cell:5}{sizes:36}{ours:8.2f} ms   {beside}", flush=True)
    return {"cell": cell, **shape, "reference_ms": ours, "torch_ms": theirs}


def our_step(spec, x, shape):
    """The block-diagonal op, as a function without arguments."""
    K, d_s = shape["K"], shape["d_s"]
    G, R = len(spec.gates), len(spec.recurrent)
    sizes = [(G, K * d_s, shape["d_in"]), (R, K, d_s, d_s), (G, K * d_s)]
    weights = [(torch.randn(size) / 8).requires_grad_() for size in sizes]

    def step():
        _, last = spec.op(x, *weights, outputs="last")
        h = last[0] if isinstance(last, tuple) else last
        torch.autograd.grad(h.sum(), weights)

    return step


def torch_step(layer, x, shape):
    """The dense layer of torch of the same width, as a function without arguments."""
    module = layer(shape["d_in"], shape["K"] * shape["d_s"], batch_first=True)
    weights = list(module.parameters())

    def step():
        h, _ = module(x)
        torch.autograd.grad(h[:, -1].sum(), weights)

    return step


def milliseconds(step):
    """Median over the repeats, after the warm-up."""
    seconds = []
    for _ in range(WARM_UP + REPEATS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return round(1000 * statistics.median(seconds[WARM_UP:]), 3)


if __name__ == "__main__":
    sys.exit(main())
