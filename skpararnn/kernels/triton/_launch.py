"""The launch of the kernels that hold a block in one lane."""

import triton
import triton.language as tl

from ._cells import CELLS
from ._scan import scan_backward, scan_forward

# A program is one warp: more would share nothing, and there are few lanes as it is.
LANES = 32

# What a lane reads ahead: steps enough to wait for memory, registers few enough.
RING_BYTES, MOST_STEPS = 128, 8

# Weights of a lane, and as many gradients; with more a block does not fit in registers.
MOST_WEIGHTS = 64


def fits(products, d_s):
    """Whether a block fits that has d_s units and so many recurrent products."""
    return products * d_s**2 <= MOST_WEIGHTS


def forward(cell, *, p, w, reverse, **arrays):
    """Run the loop over time.

    Parameters
    ----------
    cell : str
        A row of `CELLS`.
    p, w, **arrays : tensors on the current device, contiguous
        What `scan_forward` reads and fills, by the names that it has for them, in small
        letters; None for what is not there.
    reverse : bool
        From the last real step to the first.
    """
    row, arrays = CELLS[cell], arrays | {"p": p, "w": w}
    constants = _constants(row, row.forward, row.reads[0], w)
    _launch(scan_forward, arrays, _sizes(p, w, reverse), constants)


def backward(cell, *, dp, w, reverse, **arrays):
    """Fill the gradients; the arrays are those of `scan_backward`."""
    row, arrays = CELLS[cell], arrays | {"dp": dp, "w": w}
    constants = _constants(row, row.backward, row.reads[1], w)
    _launch(scan_backward, arrays, _sizes(dp, w, reverse), constants)


def _sizes(p, w, reverse):
    N, T = p.shape[:2]
    return {"N": N, "T": T, "K": w.shape[1], "REVERSE": int(reverse)}


def _constants(row, step, reads, w):
    """What a kernel is compiled for."""
    d_s, is_double = w.shape[3], w.element_size() == 8
    state = tl.float64 if is_double else tl.float32
    steps = RING_BYTES // (reads * d_s * (8 if is_double else 4))
    return {
        "CELL": step,
        "OPTION": row.option,
        "STATE": state,
        "GATES": row.gates,
        "PRODUCTS": row.products,
        "DS": d_s,
        "CHUNK": min(max(steps, 1), MOST_STEPS),
        "LANES": LANES,
    }


def _launch(kernel, arrays, sizes, constants):
    grid = (triton.cdiv(sizes["N"] * sizes["K"], LANES),)
    arrays = {name.upper(): array for name, array in arrays.items()}
    if grid[0]:
        kernel[grid](**arrays, **sizes, **constants, num_warps=1)
