"""What the kernels for CUDA ask of a GPU: registers, spills, shared memory.

    python -m benchmarks.triton_resources          # a quarter of an hour, no GPU

Triton compiles without a device, and its wheel brings the assembler. Each row of
``benchmarks/results/triton_resources.json`` is one kernel for one target, compiled for
the arguments with which the operator launches it; the tests compile again and compare.
Registers are those of a thread. In float64 a number takes two of them, so the larger
blocks of gated cells spill. A kernel of one warp without shared memory has nothing to
wait for but its own loads.
"""

import json
import re
import subprocess
import sys
import tempfile
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import torch

from skpararnn.ops import _scan_cuda

RESULT = Path(__file__).parent / "results" / "triton_resources.json"

# cell and option, as the operator has them, and their gates: all and recurrent ones
CELLS = {
    ("rnn", "tanh"): (1, 1),
    ("lstm", ""): (4, 4),
    ("gru", "after"): (3, 3),
    ("gru", "before"): (3, 3),
    ("lru", "tanh"): (2, 1),
    ("lru", "highway"): (2, 1),
}
BLOCK_SIZES = (1, 2, 4)
TYPES = {
    torch.float32: "*fp32",
    torch.float64: "*fp64",
    torch.bfloat16: "*bf16",
    torch.int64: "*i64",
}
DTYPES = (torch.float32, torch.float64, torch.bfloat16)
TARGETS = ("sm_80", "sm_90")


class Kernel(NamedTuple):
    """One kernel for one target."""

    cell: str
    option: str
    direction: str  # "forward" or "backward"
    d_s: int
    dtype: str
    target: str


class Usage(NamedTuple):
    """What it takes of a multiprocessor."""

    registers: int  # of a thread
    spilled: int  # bytes of a thread
    shared: int  # bytes


KERNELS = [
    Kernel(*cell, direction, d_s, str(dtype).removeprefix("torch."), target)
    for cell, direction, d_s, dtype, target in product(
        CELLS, ("forward", "backward"), BLOCK_SIZES, DTYPES, TARGETS
    )
]


def main():
    """Compile every kernel and write the table."""
    import triton

    rows = []
    for kernel in KERNELS:
        rows.append(kernel._asdict() | usage(kernel)._asdict())
        print(*kernel, *usage(kernel), flush=True)
    result = {"triton": triton.__version__, "kernels": rows}
    lines = json.dumps(result).replace("{", "\n{").replace("]", "\n]")
    RESULT.write_text(lines.lstrip() + "\n", encoding="utf-8")


def stored():
    """Read the table: the version of triton, and a dict of Kernel to Usage."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    rows = [list(row.values()) for row in result["kernels"]]
    n = len(Kernel._fields)
    return result["triton"], {Kernel(*row[:n]): Usage(*row[n:]) for row in rows}


@cache
def usage(kernel):
    """Compile a kernel; returns its Usage."""
    import triton
    from triton.backends.compiler import GPUTarget

    launched = launches(kernel.cell, kernel.option, kernel.d_s, kernel.dtype)
    source = triton.compiler.ASTSource(**launched[kernel.direction])
    target = GPUTarget("cuda", int(kernel.target[3:]), 32)
    compiled = triton.compile(source, target=target, options={"num_warps": 1})
    return read_usage(compiled.asm["cubin"])


@cache
def launches(cell, option, d_s, dtype):
    """What the operator launches for a layer, by direction, as Triton describes it."""
    from skpararnn.kernels.triton import _launch

    described = []

    def record(function, arrays, sizes, constants):
        arrays = {name.upper(): array for name, array in arrays.items()}
        types = {n: TYPES[a.dtype] for n, a in arrays.items() if a is not None}
        types |= dict.fromkeys(sizes, "i32")
        known = constants | {n: None for n, a in arrays.items() if a is None}
        signature = {n: types.get(n, "constexpr") for n in function.arg_names}
        described.append({"fn": function, "signature": signature, "constexprs": known})

    with mock.patch.object(_launch, "_launch", record):
        run_layer(cell, option, d_s, getattr(torch, dtype))
    return dict(zip(("forward", "backward"), described, strict=True))


def run_layer(cell, option, d_s, dtype):
    """Call the operator's two parts with all that the cell has, and lengths."""
    (G, R), K, N, T = CELLS[cell, option], 1, 1, 1
    x, row = torch.zeros(N, T, d_s, dtype=dtype), torch.zeros(N, d_s, dtype=dtype)
    tensors = (
        x,
        x.new_zeros(G, d_s, d_s),
        x.new_zeros(R, K, d_s, d_s),
        x.new_zeros(G, d_s),
        x.new_zeros(d_s) if option == "after" else None,
        row,
        row if cell == "lstm" else None,
        torch.full((N,), T),
    )
    how = cell, option, False, "all"
    h, h_last, c_last, *kept = _scan_cuda.forward(*tensors, *how, True)
    wanted = [tensor is not None for tensor in tensors[:-1]]
    _scan_cuda.backward(h, h_last, c_last, *tensors, h, *kept, *how, wanted)


def read_usage(cubin):
    """Ask the tool of the wheel what a compiled kernel takes."""
    import triton.backends.nvidia as nvidia

    cuobjdump = Path(nvidia.__file__).parent / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [cuobjdump, "--dump-resource-usage", file.name]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {name: int(n) for name, n in re.findall(r"(\w+):(\d+)", run.stdout)}
    return Usage(found["REG"], found["STACK"] + found["LOCAL"], found["SHARED"])


if __name__ == "__main__":
    sys.exit(main())
