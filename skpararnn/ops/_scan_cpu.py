"""The operators ``scan`` and ``scan_backward`` on the CPU.

The kernel projects a narrow input itself. For a wide one a matrix product is quicker:
forward hands the kernel p, the input part of the pre-activations, and backward gets dp
from it, from which follow the gradients of the input, its weights and the bias.
"""

from typing import NamedTuple

import torch

from ..kernels import cpu
from ._loop import blank_padding

# features up to which the kernel projects
NARROW = 32

# Steps between two checkpoints. Backward computes the states between them anew, into a
# buffer that should stay in the innermost cache; gated cells keep their gates in it.
CHUNKS = {"rnn": 32, "lstm": 16, "gru": 16, "lru": 16}


class Inputs(NamedTuple):
    """The tensors that both operators take, as the kernel reads them: contiguous."""

    x: torch.Tensor  # (N, T, d_in)
    weight_x: torch.Tensor  # (G, d, d_in), without the row of a highway's candidate
    weight_h: torch.Tensor  # (R, K, d_s, d_s)
    bias: torch.Tensor  # (G, d), as weight_x
    bias_q: torch.Tensor | None  # (d,)
    h0: torch.Tensor | None  # (N, d)
    c0: torch.Tensor | None  # (N, d)
    lengths: torch.Tensor | None  # (N,), int64


def forward(*arguments):
    """Return what ``scan`` returns, None for what is empty there."""
    *tensors, cell, option, reverse, outputs, save = arguments
    x, weight_x, *_ = tensors
    filled = empty_outputs(x, weight_x, cell, option, outputs, save)
    h, h_last, c_last, checkpoints, p = filled
    inputs = _readable(tensors, option)
    if _is_wide(x):
        p = x.new_empty(_shape_of_p(x, weight_x, option)) if p is None else p
        _project(inputs, p)
    call = _describe(inputs, p, cell, option, reverse, outputs)
    call.h, call.h_last, call.c_last = map(_address, (h, h_last, c_last))
    call.checkpoints = _address(checkpoints)
    cpu.forward(call)
    return filled


def backward(dh, dh_last, dc_last, *arguments):
    """Return what ``scan_backward`` returns, None for what is empty there."""
    *tensors, checkpoints, p, cell, option, reverse, outputs, wanted = arguments
    grads = empty_gradients(tensors, wanted)
    dx, dweight_x, dweight_h, dbias, dbias_q, dh0, dc0 = grads
    inputs = _readable(tensors, option)
    given = [_contiguous(grad) for grad in (dh, dh_last, dc_last)]
    call = _describe(inputs, p, cell, option, reverse, outputs)
    call.checkpoints = _address(checkpoints)
    call.dh, call.dh_last, call.dc_last = map(_address, given)
    call.dweight_h, call.dbias_q = _address(dweight_h), _address(dbias_q)
    call.dh0, call.dc0 = _address(dh0), _address(dc0)
    dweight_x, dbias = _projected(dweight_x, option), _projected(dbias, option)
    if _is_wide(inputs.x):
        dp = torch.empty_like(p)
        call.dp, call.dx = _address(dp), _address(dx) if option == "highway" else None
        cpu.backward(call)
        _project_back(inputs, dp, dx, dweight_x, dbias, option)
    else:
        call.dx, call.dweight_x, call.dbias = map(_address, (dx, dweight_x, dbias))
        cpu.backward(call)
    if option == "highway":
        _blank_candidate(grads[1])
        _blank_candidate(grads[3])
    return grads


# -- arrays to fill --------------------------------------------------------------------


def empty_outputs(x, weight_x, cell, option, outputs, save):
    """Allocate what ``scan`` returns."""
    (N, T, _), d = x.shape, weight_x.shape[1]
    n_chunks, n_states = -(-T // CHUNKS[cell]), 2 if cell == "lstm" else 1
    h = {"all": (N, T, d), "mean": (N, d), "last": None}[outputs]
    c_last = (N, d) if cell == "lstm" else None
    checkpoints = (N, n_chunks, n_states, d) if save else None
    p = _shape_of_p(x, weight_x, option) if save and _is_wide(x) else None
    shapes = h, (N, d), c_last, checkpoints, p
    return tuple(None if shape is None else x.new_empty(shape) for shape in shapes)


def empty_gradients(tensors, wanted):
    """Allocate what ``scan_backward`` returns."""
    x, pairs = (
        tensors[0],
        zip(tensors, wanted, strict=False),
    )  # lengths have no gradient
    return tuple(x.new_empty(t.shape) if want else None for t, want in pairs)


def _shape_of_p(x, weight_x, option):
    (N, T, _), (G, d, _) = x.shape, weight_x.shape
    return N, T, G - 1 if option == "highway" else G, d


def _is_wide(x):
    return x.shape[2] > NARROW


# -- highway ---------------------------------------------------------------------------


def _projected(rows, option):
    """The rows of the gates that read x through weights."""
    return rows[1:] if option == "highway" and rows is not None else rows


def _blank_candidate(grad):
    """Zero the gradient of the row that is not read."""
    if grad is not None:
        grad[0] = 0.0


# -- projection ------------------------------------------------------------------------

# Results are written to `out` or in place: autocast, which would make them half as wide
# as the kernel expects, leaves such calls alone.


def _project(inputs, p):
    x, W, b = inputs.x, inputs.weight_x, inputs.bias
    out = p.view(-1, b.numel())
    torch.addmm(b.view(-1), x.flatten(0, 1), W.flatten(0, 1).T, out=out)


def _project_back(inputs, dp, dx, dweight_x, dbias, option):
    x, W = inputs.x, inputs.weight_x.flatten(0, 1)
    dp = dp.view(-1, len(W))
    if dx is not None:  # of a highway's candidate the kernel has written its part
        beta = 1.0 if option == "highway" else 0.0
        dx.view(-1, x.shape[2]).addmm_(dp, W, beta=beta)
    if dweight_x is not None:
        x = blank_padding(x, inputs.lengths).flatten(0, 1)
        torch.mm(dp.T, x, out=dweight_x.view(len(W), -1))
    if dbias is not None:
        torch.sum(dp, dim=0, out=dbias.view(-1))


# -- calls -----------------------------------------------------------------------------


def _readable(tensors, option):
    inputs = Inputs(*map(_contiguous, tensors))
    if option != "highway":
        return inputs
    return inputs._replace(weight_x=inputs.weight_x[1:], bias=inputs.bias[1:])


def _contiguous(tensor):
    return None if tensor is None else tensor.resolve_neg().contiguous()


def _address(tensor):
    return None if tensor is None else tensor.data_ptr()


def _describe(inputs, p, cell, option, reverse, outputs):
    (N, T, d_in), (_, K, d_s, _) = inputs.x.shape, inputs.weight_h.shape
    return cpu.Scan(
        itemsize=inputs.x.element_size(),
        cell=cpu.CELL_CODES[f"{cell}_{option}" if option else cell],
        K=K,
        d_s=d_s,
        d_in=d_in,
        N=N,
        T=T,
        chunk=CHUNKS[cell],
        reverse=reverse,
        outputs=cpu.OUTPUT_CODES[outputs],
        threads=torch.get_num_threads(),
        p=_address(p),
        **dict(zip(Inputs._fields, map(_address, inputs), strict=True)),
    )
