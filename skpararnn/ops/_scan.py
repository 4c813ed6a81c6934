"""The loop over time as one operator of torch, run by a kernel.

``torch.ops.skpararnn.scan`` serves all cells, and ``scan_backward`` is its gradient.
Operators take and return tensors: an empty one stands for what is not there. They are
registered with torch, so that autograd, ``torch.compile`` and ``opcheck`` know them.
"""

from typing import NamedTuple

import torch

from ..kernels import cpu
from ._loop import blank_padding

# Up to so many features the kernel multiplies by weight_x itself; above, one matrix
# product for all steps costs less.
NARROW = 32


class Cell(NamedTuple):
    """What the operator needs to know of a cell of the kernel."""

    G: int  # gates that read the input, in weight_x and bias
    states: int = 1  # h, or h and c
    chunk: int = 16  # steps between two states that are kept for backward
    skip: int = 0  # leading rows of weight_x and bias that the cell does not use


CELLS = {
    "rnn_tanh": Cell(1, chunk=32),
    "rnn_relu": Cell(1, chunk=32),
    "rnn_sigmoid": Cell(1, chunk=32),
    "rnn_identity": Cell(1, chunk=32),
    "lstm": Cell(4, states=2),
    "gru_after": Cell(3),
    "gru_before": Cell(3),
    "lru_tanh": Cell(2),
    "lru_highway": Cell(2, skip=1),
}


def scan(x, weight_x, weight_h, bias, loop, *, cell, bias_q=None):
    """Run a layer by the kernel of x's device.

    Parameters
    ----------
    x, weight_x, weight_h, bias, bias_q
        As in the ops.
    loop : Loop
        First states, lengths, direction and which outputs.
    cell : str
        A row of `CELLS`.

    Returns
    -------
    h : tensor of shape (N, T, d) or (N, d), or None for "last"
    states : tuple of tensors of shape (N, d)
    """
    h0, c0 = (*loop.states, None)[:2]
    tensors = [
        x.new_empty(0) if tensor is None else tensor
        for tensor in (x, weight_x, weight_h, bias, bias_q, h0, c0)
    ]
    lengths = loop.lengths
    if lengths is None:
        lengths = torch.empty(0, dtype=torch.int64, device=x.device)
    save = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    h, h_last, c_last, _, _ = torch.ops.skpararnn.scan(
        *tensors, lengths, cell, loop.reverse, loop.outputs, save
    )
    states = (h_last, c_last)[: CELLS[cell].states]
    return (None if loop.outputs == "last" else h), states


# -------------------------------------------------------------------------- operators

_ARGUMENTS = (
    "Tensor x, Tensor weight_x, Tensor weight_h, Tensor bias, Tensor bias_q, "
    "Tensor h0, Tensor c0, Tensor lengths"
)
_HOW = "str cell, bool reverse, str outputs"

LIBRARY = torch.library.Library("skpararnn", "DEF")
LIBRARY.define(
    f"scan({_ARGUMENTS}, {_HOW}, bool save) "
    "-> (Tensor h, Tensor h_last, Tensor c_last, Tensor checkpoints, Tensor p)"
)
LIBRARY.define(
    f"scan_backward(Tensor dh, Tensor dh_last, Tensor dc_last, {_ARGUMENTS}, "
    f"Tensor checkpoints, Tensor p, {_HOW}, bool wants_dx) -> (Tensor dx, "
    "Tensor dweight_x, Tensor dweight_h, Tensor dbias, Tensor dbias_q, Tensor dh0, "
    "Tensor dc0)"
)


def _empty_outputs(x, weight_x, weight_h, lengths, cell, outputs, save):
    """What `scan` returns, not filled yet."""
    (N, T, d_in), d, spec = x.shape, weight_x.shape[1], CELLS[cell]
    shapes = {"last": (0,), "mean": (N, d), "all": (N, T, d)}
    n_chunks = (T + spec.chunk - 1) // spec.chunk
    kept = (N, n_chunks, spec.states, d) if save else (0,)
    wide = save and d_in > NARROW
    return (
        x.new_empty(shapes[outputs]),
        x.new_empty(N, d),
        x.new_empty((N, d) if spec.states == 2 else (0,)),
        x.new_empty(kept),
        x.new_empty((N, T, (spec.G - spec.skip) * d) if wide else (0,)),
    )


@torch.library.register_fake("skpararnn::scan", lib=LIBRARY)
def _(x, weight_x, weight_h, bias, bias_q, h0, c0, lengths, cell, _, outputs, save):
    return _empty_outputs(x, weight_x, weight_h, lengths, cell, outputs, save)


@torch.library.register_fake("skpararnn::scan_backward", lib=LIBRARY)
def _(dh, dh_last, dc_last, x, weight_x, weight_h, bias, bias_q, h0, c0, *rest):
    wants_dx = rest[-1]
    return (
        x.new_empty(x.shape if wants_dx else (0,)),
        *(x.new_empty(t.shape) for t in (weight_x, weight_h, bias, bias_q, h0, c0)),
    )


def _keep_for_backward(ctx, inputs, output):
    *tensors, cell, reverse, outputs, _ = inputs
    *_, checkpoints, p = output
    ctx.save_for_backward(*tensors, checkpoints, p)
    ctx.how = cell, reverse, outputs
    ctx.set_materialize_grads(False)


def _differentiate(ctx, dh, dh_last, dc_last, _checkpoints, _p):
    saved = ctx.saved_tensors
    none = saved[0].new_empty(0)
    given = (none if grad is None else grad for grad in (dh, dh_last, dc_last))
    dx, *grads = torch.ops.skpararnn.scan_backward(
        *given, *saved, *ctx.how, ctx.needs_input_grad[0]
    )
    grads = [dx if ctx.needs_input_grad[0] else None, *grads]
    return *grads, None, None, None, None, None


def _refuse_second_derivatives(ctx, *_):
    raise RuntimeError(
        "the kernels have no second derivatives; run the layer with backend='reference'"
    )


torch.library.register_autograd(
    "skpararnn::scan", _differentiate, setup_context=_keep_for_backward, lib=LIBRARY
)
torch.library.register_autograd(
    "skpararnn::scan_backward", _refuse_second_derivatives, lib=LIBRARY
)


# -------------------------------------------------------------------------------- CPU


def _scan_cpu(
    x,
    weight_x,
    weight_h,
    bias,
    bias_q,
    h0,
    c0,
    lengths,
    cell,
    reverse,
    outputs,
    save,
):
    given = _contiguous(x, weight_x, weight_h, bias, bias_q, h0, c0, lengths)
    x, weight_x, weight_h, bias, *_, lengths = given
    _check_lengths(lengths, x.shape[1])
    filled = _empty_outputs(x, weight_x, weight_h, lengths, cell, outputs, save)
    h, h_last, c_last, checkpoints, p = filled
    if x.shape[2] > NARROW:
        p = _project(x, weight_x, bias, lengths, cell)
    cpu.forward(
        _call(
            given,
            p,
            cell,
            reverse,
            outputs,
            h=h,
            h_last=h_last,
            c_last=c_last,
            checkpoints=checkpoints,
        )
    )
    return h, h_last, c_last, checkpoints, p if save else filled[-1]


def _scan_backward_cpu(
    dh,
    dh_last,
    dc_last,
    x,
    weight_x,
    weight_h,
    bias,
    bias_q,
    h0,
    c0,
    lengths,
    checkpoints,
    p,
    cell,
    reverse,
    outputs,
    wants_dx,
):
    given = _contiguous(x, weight_x, weight_h, bias, bias_q, h0, c0, lengths)
    dh, dh_last, dc_last = _contiguous(dh, dh_last, dc_last)
    x, weight_x, *_ = given
    skip, wide = CELLS[cell].skip, x.shape[2] > NARROW
    dx = torch.empty_like(x) if wants_dx else x.new_empty(0)
    dweight_x, dweight_h, dbias, dbias_q, dh0, dc0 = map(torch.empty_like, given[1:7])
    dweight_x[:skip] = dbias[:skip] = 0.0
    dp = torch.empty_like(p)
    cpu.backward(
        _call(
            given,
            p,
            cell,
            reverse,
            outputs,
            checkpoints=checkpoints,
            dh=dh,
            dh_last=dh_last,
            dc_last=dc_last,
            dx=dx if skip or not wide else None,
            dp=dp,
            dweight_x=None if wide else dweight_x[skip:],
            dweight_h=dweight_h,
            dbias=dbias[skip:],
            dbias_q=dbias_q,
            dh0=dh0,
            dc0=dc0,
        )
    )
    if wide:
        _project_back(dp, given, cell, dx, dweight_x)
    return dx, dweight_x, dweight_h, dbias, dbias_q, dh0, dc0


LIBRARY.impl("scan", _scan_cpu, "CPU")
LIBRARY.impl("scan_backward", _scan_backward_cpu, "CPU")


def _contiguous(*tensors):
    return [tensor.contiguous() for tensor in tensors]


def _check_lengths(lengths, T):
    # the kernel reads by them; ops that are compiled cannot look at values before
    if lengths.numel():
        low, high = (int(bound) for bound in lengths.aminmax())
        if low < 0 or high > T:
            raise ValueError(f"lengths must lie in 0..{T}; got {low} to {high}")


def _call(given, p, cell, reverse, outputs, **buffers):
    """The kernel's struct; it reads and fills the tensors in place."""
    x, weight_x, weight_h, bias, bias_q, h0, c0, lengths = given
    (N, T, d_in), (_, K, d_s, _), spec = x.shape, weight_h.shape, CELLS[cell]
    buffers |= {
        "x": x,
        "p": p,
        "weight_x": weight_x[spec.skip :],
        "weight_h": weight_h,
        "bias": bias[spec.skip :],
        "bias_q": bias_q,
        "h0": h0,
        "c0": c0,
        "lengths": lengths,
    }
    return cpu.Scan(
        itemsize=x.element_size(),
        cell=cpu.CELL_CODES[cell],
        K=K,
        d_s=d_s,
        d_in=d_in,
        N=N,
        T=T,
        chunk=spec.chunk,
        reverse=reverse,
        outputs=cpu.OUTPUT_CODES[outputs],
        threads=torch.get_num_threads(),
        **{name: _address(tensor) for name, tensor in buffers.items()},
    )


def _address(tensor):
    return None if tensor is None or not tensor.numel() else tensor.data_ptr()


def _project(x, weight_x, bias, lengths, cell):
    """Input part of the pre-activations, ``(N, T, G * d)``."""
    skip, (N, T, d_in) = CELLS[cell].skip, x.shape
    weight, rows = weight_x[skip:].flatten(0, 1), _real(x, lengths).view(N * T, d_in)
    return torch.addmm(bias[skip:].flatten(), rows, weight.t()).view(N, T, -1)


def _project_back(dp, given, cell, dx, dweight_x):
    """Fill dweight_x, and dx if it is wanted, from the gradient of `_project`."""
    x, weight_x, *_, lengths = given
    skip, (N, T, d_in) = CELLS[cell].skip, x.shape
    dp, rows = dp.view(N * T, -1), _real(x, lengths).view(N * T, d_in)
    torch.mm(dp.t(), rows, out=dweight_x[skip:].flatten(0, 1))
    if dx.numel():
        # a highway layer's dx holds already what comes through the candidate
        weight = weight_x[skip:].flatten(0, 1)
        dx.view(N * T, d_in).addmm_(dp, weight, beta=1.0 if skip else 0.0)


def _real(x, lengths):
    """Replace padded steps by zeros: whatever stands there would reach the products."""
    return blank_padding(x, lengths) if lengths.numel() else x
