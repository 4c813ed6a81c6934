"""The operators ``scan`` and ``scan_backward`` on CUDA.

The input is projected by a matrix product for all steps, then the loop over time is one
kernel. Backward reads the states that forward has stored, and computes the gates anew.
States are stored, not checkpoints: the pre-activations of a gated cell are kept for all
steps in any case, so checkpoints would save a third to a fifth of the memory, and cost
a second forward run of a loop that is bound by its latency. An rnn needs no more than
its states.

Nothing here waits for the device, so a CUDA graph can record it; in particular lengths
stay where they are.
"""

import torch

from ._scan_parts import (
    How,
    contiguous,
    empty_gradients,
    new_p,
    of_read_rows,
    project,
    project_back,
    readable,
)

# Backward reads the states from the output, where it has them all.
KEEPS_H = True


def forward(*arguments):
    """Return what ``scan`` returns, None for what is empty there."""
    tensors, how, save = arguments[:8], How(*arguments[8:12]), arguments[12]
    filled = empty_outputs(*tensors[:2], how, save)
    h, h_last, c_last, checkpoints, p = filled
    inputs = readable(tensors, how)
    if p is None:
        p = new_p(inputs.x, inputs.weight_x)
    project(inputs, p)
    states = _states(h, checkpoints, how)
    if how.outputs == "all" and inputs.lengths is not None:
        h.zero_()  # padded steps
    _launch(
        "forward",
        inputs,
        how,
        p=p,
        h=states.get("h"),
        c=states.get("c"),
        mean=h if how.outputs == "mean" else None,
        h_last=h_last,
        c_last=c_last,
    )
    return filled


def backward(dh, dh_last, dc_last, *arguments):
    """Return what ``scan_backward`` returns, None for what is empty there."""
    tensors, how, wanted = arguments[:8], How(*arguments[11:15]), arguments[15]
    h, checkpoints, p = map(_if_there, arguments[8:11])
    grads = empty_gradients(tensors, wanted)
    inputs = readable(tensors, how)
    dx, dweight_x, dweight_h, dbias, dbias_q, dh0, dc0 = of_read_rows(grads, how)
    dp = new_p(inputs.x, inputs.weight_x)
    candidate = _buffer(dx, inputs.x) if how.highway else None
    if inputs.lengths is not None:
        for gradient in (dp, candidate):
            if gradient is not None:
                gradient.zero_()  # padded steps
    dh = contiguous(dh)
    states = _states(h, checkpoints, how)
    N, wide = len(inputs.x), torch.promote_types(inputs.x.dtype, torch.float32)
    rows_of_h = inputs.x.new_empty(N, *inputs.weight_h.shape, dtype=wide)
    has_q = how.code == "gru_after"
    rows_of_q = inputs.x.new_empty(N, dp.shape[3], dtype=wide) if has_q else None
    _launch(
        "backward",
        inputs,
        how,
        dh=dh if how.outputs == "all" else None,
        dmean=dh if how.outputs == "mean" else None,
        dh_last=contiguous(dh_last),
        dc_last=contiguous(dc_last),
        p=p,
        h=states["h"],
        c=states.get("c"),
        dx=candidate,
        dp=dp,
        dw=rows_of_h,
        dbias_q=rows_of_q,
        dh0=_buffer(dh0, states["h"][:, 0]),
        dc0=_buffer(dc0, states["h"][:, 0]) if how.cell == "lstm" else None,
    )
    for gradient, rows in ((dweight_h, rows_of_h), (dbias_q, rows_of_q)):
        if gradient is not None:
            gradient.copy_(rows.sum(dim=0))  # in a fixed order
    for gradient in (dweight_x, dbias):
        if gradient is not None:
            gradient.zero_()
    project_back(inputs, dp, dx, dweight_x, dbias, how)
    return grads


# -- what is there ---------------------------------------------------------------------


def empty_outputs(x, weight_x, how, save):
    """Allocate what ``scan`` returns."""
    (N, T, _), (G, d, _) = x.shape, weight_x.shape
    n_states = 2 if how.cell == "lstm" else 1
    n_stored = n_states - 1 if how.outputs == "all" else n_states
    shapes = (
        {"all": (N, T, d), "mean": (N, d), "last": None}[how.outputs],
        (N, d),
        (N, d) if how.cell == "lstm" else None,
        (n_stored, N, T, d) if save and n_stored else None,
        # the slope of an rnn follows from the state
        (N, T, G - 1 if how.highway else G, d) if save and how.cell != "rnn" else None,
    )
    return tuple(None if shape is None else x.new_empty(shape) for shape in shapes)


def _states(h, checkpoints, how):
    """The stored states by name: those of the output and those beside it."""
    stored = [] if checkpoints is None else list(checkpoints)
    states = [h, *stored] if how.outputs == "all" else stored
    return dict(zip("hc", states, strict=False))


def _if_there(tensor):
    return None if tensor is None or tensor.numel() == 0 else tensor


def _buffer(gradient, like):
    """The gradient, or a place for one that nobody wants."""
    return torch.empty_like(like) if gradient is None else gradient


# -- one launch ------------------------------------------------------------------------


def _launch(direction, inputs, how, **arrays):
    from ..kernels import triton  # there may be none

    R, _, d_s, _ = inputs.weight_h.shape
    run = getattr(triton.kernel_for(R, d_s), direction)
    with torch.cuda.device_of(inputs.x):
        run(
            how.code,
            x=inputs.x if how.highway else None,
            w=inputs.weight_h,
            bias_q=inputs.bias_q,
            h0=inputs.h0,
            c0=inputs.c0,
            lengths=inputs.lengths,
            reverse=how.reverse,
            **arrays,
        )
