"""The operators ``scan`` and ``scan_backward`` on the CPU.

The kernel projects a narrow input itself. For a wide one matrix products are quicker:
forward hands the kernel p, the input part of the pre-activations, and backward gets dp
from it, from which follow the gradients of the input, its weights and the bias.
"""

import torch

from ..kernels import cpu
from ._scan_parts import (
    How,
    Inputs,
    contiguous,
    empty_gradients,
    new_p,
    of_read_rows,
    project,
    project_back,
    readable,
)

# features up to which the kernel projects
NARROW = 32

# Steps between two checkpoints. Backward computes the states between them anew, into a
# buffer that should stay in the innermost cache; gated cells keep their gates in it.
CHUNKS = {"rnn": 32, "lstm": 16, "gru": 16, "lru": 16}

# A wide input is run some rows at a time, in buffers of about so many bytes: for larger
# ones the system hands out fresh memory, which takes longer than to fill it. Threads
# share the rows of a call, so there should not be too few.
PIECE_BYTES, PIECE_ROWS = 2**25, 16


# The kernel computes the states of a chunk anew, so the output is not needed again.
KEEPS_H = False


def forward(*arguments):
    """Return what ``scan`` returns, None for what is empty there."""
    tensors, how, save = arguments[:8], How(*arguments[8:12]), arguments[12]
    filled = empty_outputs(*tensors[:2], how, save)
    inputs = readable(tensors, how)
    if _is_wide(inputs.x):
        _forward_wide(inputs, filled, how)
    else:
        _forward(inputs, None, filled[:4], how)
    return filled


def backward(dh, dh_last, dc_last, *arguments):
    """Return what ``scan_backward`` returns, None for what is empty there."""
    tensors, how, wanted = arguments[:8], How(*arguments[11:15]), arguments[15]
    _, checkpoints, p = arguments[8:11]
    grads = empty_gradients(tensors, wanted)
    inputs = readable(tensors, how)
    given = [contiguous(t) for t in (dh, dh_last, dc_last, checkpoints)]
    if _is_wide(inputs.x):
        _backward_wide(inputs, p, given, of_read_rows(grads, how), how)
    else:
        _backward(inputs, None, None, given, of_read_rows(grads, how), how)
    return grads


# -- what is there ---------------------------------------------------------------------


def empty_outputs(x, weight_x, how, save):
    """Allocate what ``scan`` returns."""
    (N, T, _), d = x.shape, weight_x.shape[1]
    n_chunks, n_states = -(-T // CHUNKS[how.cell]), 2 if how.cell == "lstm" else 1
    shapes = (
        {"all": (N, T, d), "mean": (N, d), "last": None}[how.outputs],
        (N, d),
        (N, d) if how.cell == "lstm" else None,
        (N, n_chunks, n_states, d) if save else None,
        _shape_of_p(x, weight_x, how) if save and _is_wide(x) else None,
    )
    return tuple(None if shape is None else x.new_empty(shape) for shape in shapes)


def _shape_of_p(x, weight_x, how):
    (N, T, _), (G, d, _) = x.shape, weight_x.shape
    return N, T, G - 1 if how.highway else G, d


def _is_wide(x):
    return x.shape[2] > NARROW


# -- one call of the kernel ------------------------------------------------------------


def _forward(inputs, p, filled, how):
    call = _describe(inputs, p, how)
    call.h, call.h_last, call.c_last, call.checkpoints = map(_address, filled)
    cpu.forward(call)


def _backward(inputs, p, dp, given, grads, how):
    call = _describe(inputs, p, how)
    call.dh, call.dh_last, call.dc_last, call.checkpoints = map(_address, given)
    call.dx, call.dweight_x, call.dweight_h, *others = map(_address, grads)
    call.dbias, call.dbias_q, call.dh0, call.dc0 = others
    call.dp = _address(dp)
    cpu.backward(call)


def _describe(inputs, p, how):
    (N, T, d_in), (_, K, d_s, _) = inputs.x.shape, inputs.weight_h.shape
    return cpu.Scan(
        itemsize=inputs.x.element_size(),
        cell=cpu.CELL_CODES[how.code],
        K=K,
        d_s=d_s,
        d_in=d_in,
        N=N,
        T=T,
        chunk=CHUNKS[how.cell],
        reverse=how.reverse,
        outputs=cpu.OUTPUT_CODES[how.outputs],
        threads=torch.get_num_threads(),
        p=_address(p),
        **dict(zip(Inputs._fields, map(_address, inputs), strict=True)),
    )


def _address(tensor):
    if tensor is None or tensor.numel() == 0:
        return None
    address = tensor.data_ptr()
    if not address:
        raise ValueError(
            f"the CPU kernel cannot read a tensor of shape {tuple(tensor.shape)} that "
            "has no memory; choose backend='reference'"
        )
    return address


# -- a wide input, piece by piece ------------------------------------------------------


def _forward_wide(inputs, filled, how):
    *buffers, p = filled
    pieces = _pieces(inputs)
    scratch = new_p(inputs.x[pieces[0]], inputs.weight_x) if p is None else None
    for rows in pieces:
        some = _rows_of(inputs, rows)
        p_some = scratch[: len(some.x)] if p is None else p[rows]
        project(some, p_some)
        _forward(some, p_some, [_take(buffer, rows) for buffer in buffers], how)


def _backward_wide(inputs, p, given, grads, how):
    dx, dweight_x, dweight_h, dbias, dbias_q, dh0, dc0 = grads
    for total in (dweight_x, dweight_h, dbias, dbias_q):
        if total is not None:
            total.zero_()
    part_h, part_q = _like(dweight_h), _like(dbias_q)
    pieces = _pieces(inputs)
    scratch = new_p(inputs.x[pieces[0]], inputs.weight_x)
    for rows in pieces:
        some, dp = _rows_of(inputs, rows), scratch[: len(inputs.x[rows])]
        dx_some, *of_states = (_take(grad, rows) for grad in (dx, dh0, dc0))
        candidate = dx_some if how.highway else None
        of_kernel = candidate, None, part_h, None, part_q, *of_states
        given_some = [_take(tensor, rows) for tensor in given]
        _backward(some, p[rows], dp, given_some, of_kernel, how)
        project_back(some, dp, dx_some, dweight_x, dbias, how)
        for total, part in ((dweight_h, part_h), (dbias_q, part_q)):
            if total is not None:
                total += part


def _pieces(inputs):
    """Slices of rows, with about equal numbers of them."""
    (N, T, _), numbers = inputs.x.shape, inputs.bias.numel()
    bytes_of_row = T * numbers * inputs.x.element_size()
    most = max(PIECE_ROWS, PIECE_BYTES // bytes_of_row)
    n_pieces = -(-N // most)
    n_rows = -(-N // max(1, n_pieces))
    return [slice(n, n + n_rows) for n in range(0, N, n_rows)] if N else [slice(0, 0)]


def _rows_of(inputs, rows):
    x, h0, c0, lengths = (
        _take(tensor, rows)
        for tensor in (inputs.x, inputs.h0, inputs.c0, inputs.lengths)
    )
    return inputs._replace(x=x, h0=h0, c0=c0, lengths=lengths)


def _take(tensor, rows):
    return None if tensor is None else tensor[rows]


def _like(tensor):
    return None if tensor is None else torch.empty_like(tensor)
