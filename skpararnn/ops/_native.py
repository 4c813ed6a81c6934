"""A dense layer, K = 1, by torch's own kernels, which are cuDNN's on CUDA.

They know no first step of a row but step 0 and no last one but step T - 1. So rows are
turned around for the other direction, and the state after the last real step is looked
up among the outputs. Of an lstm these are but half of the state: its rows are packed,
for which the host reads their lengths.
"""

from functools import partial

import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ._loop import blank_padding, real_steps

RUN = {
    "rnn_tanh": torch.rnn_tanh,
    "rnn_relu": torch.rnn_relu,
    "lstm": torch.lstm,
    "gru_after": torch.gru,
}


def offered(cell):
    """Return the entry of an op's table, or none if torch does not have the cell."""
    return {"native": partial(native, cell=cell)} if cell in RUN else {}


def native(x, weight_x, weight_h, bias, loop, *, cell, bias_q=None):
    """Run a dense layer.

    Parameters
    ----------
    x, weight_x, weight_h, bias, bias_q : tensors
        As in the ops, checked, with K = 1.
    loop : Loop
    cell : str
        A row of `RUN`.

    Returns
    -------
    h : tensor of shape (N, T, d), (N, d) or None
        As in the ops.
    states : tuple of tensors of shape (N, d)
    """
    # those on CUDA have not been looked at
    lengths = None if loop.lengths is None else loop.lengths.clamp(0, x.shape[1])
    x = blank_padding(x, lengths)
    if loop.reverse:
        x = _turned(x, lengths)
    weights = _flat_weights(weight_x, weight_h, bias, bias_q)
    is_packed = cell == "lstm" and lengths is not None
    run = _run_packed if is_packed else _run_padded
    h, states = run(RUN[cell], x, loop.states, weights, lengths)
    return _outputs(h, loop._replace(lengths=lengths)), states


def _flat_weights(weight_x, weight_h, bias, bias_q):
    """Weights and biases as torch has them, in one piece of memory as cuDNN wants."""
    b_h = torch.zeros_like(bias)
    if bias_q is not None:
        b_h[-1] = bias_q
    parts = [
        weight_x.flatten(0, 1),
        weight_h.flatten(0, 2),
        bias.flatten(),
        b_h.flatten(),
    ]
    whole = torch.cat([part.flatten() for part in parts])
    pieces = whole.split([part.numel() for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def _options():
    """With biases, one layer, no dropout, whether backward may come, one direction."""
    return True, 1, 0.0, torch.is_grad_enabled(), False


def _run_padded(run, x, first, weights, lengths):
    first = tuple(state[None].contiguous() for state in first)
    how = first if len(first) > 1 else first[0]
    h, *states = run(x, how, weights, *_options(), True)
    if lengths is None:
        return h, tuple(state[0] for state in states)
    return h, (_state_after(h, lengths, first[0][0]),)


def _state_after(h, lengths, h0):
    at = (lengths - 1).clamp(min=0)[:, None, None]
    last = torch.take_along_dim(h, at, dim=1)[:, 0]
    return torch.where(lengths[:, None] > 0, last, h0)


def _run_packed(run, x, first, weights, lengths):
    # a row of no steps takes one of zeros, and is given its first states back
    packed = pack_padded_sequence(
        x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False
    )
    order, back = packed.sorted_indices, packed.unsorted_indices
    states = tuple(state[order][None] for state in first)
    flat, *last = run(packed.data, packed.batch_sizes, states, weights, *_options())
    h, _ = pad_packed_sequence(
        PackedSequence(flat, packed.batch_sizes, order, back),
        batch_first=True,
        total_length=x.shape[1],
    )
    moved = (lengths > 0)[:, None]
    pairs = zip(last, first, strict=True)
    return h, tuple(torch.where(moved, new[0][back], old) for new, old in pairs)


def _outputs(h, loop):
    if loop.outputs == "last":
        return None
    h = blank_padding(h, loop.lengths)
    if loop.outputs == "all":
        return _turned(h, loop.lengths) if loop.reverse else h
    if loop.lengths is None:
        return h.mean(dim=1)
    return h.sum(dim=1) / loop.lengths.clamp(min=1)[:, None]


def _turned(x, lengths):
    """Each row backwards, its padding where it was."""
    if lengths is None:
        return x.flip(1)
    T = x.shape[1]
    steps = torch.arange(T, device=x.device)
    at = torch.where(real_steps(lengths, T), lengths[:, None] - 1 - steps, steps)
    return torch.take_along_dim(x, at[:, :, None], dim=1)
