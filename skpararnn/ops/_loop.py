"""The time loop that the reference path of every op shares.

Inside the loop units come first and samples last: a state is ``(K, d_s, N)``, the
pre-activations of one step are ``(K, G * d_s, N)``. The products of all recurrent gates
are then one ``torch.bmm``, and each gate is a slice with long contiguous runs, so the
pointwise part is vectorised even for d_s = 1. Layouts change once, outside the loop.
"""

from collections import deque

import torch


def run_loop(step, inputs, loop):
    """Run `step` over time.

    Parameters
    ----------
    step : callable
        ``step(*inputs_t, *states) -> states``, a tuple that starts with h. Each input
        of one step is ``(K, rows, N)``, each state ``(K, d_s, N)``.
    inputs : tuple of tensors of shape (K, rows, T, N)
        What does not depend on the states, for all steps at once.
    loop : Loop
        First states, lengths, direction and which outputs. A padded step holds the
        state.

    Returns
    -------
    h : tensor of shape (N, T, d), zero at padded steps; its mean over real steps
        ``(N, d)``, zero for a row of length 0; or None for "last"
    states : tuple of tensors of shape (N, d)
        At the last real step, in the direction of the run.

    Notes
    -----
    `inputs` are taken apart by one ``unbind``. Indexing ``p[..., t, :]`` would give
    every step a full-size gradient, and backward would be quadratic in T.

    The vectorised pointwise functions of torch round the last numbers of a run, those
    that do not fill a register, in another way. With N a multiple of 32 there are none
    in float32, and the values of a row depend neither on its place nor on the others.
    """
    K, _, T, _ = inputs[0].shape
    real = _masks(loop.lengths, T)
    states = tuple(_units_first(state, K) for state in loop.states)
    walk = _walk(step, inputs, states, real, loop.reverse)
    h, states = COLLECT[loop.outputs](walk, real, loop.lengths)
    return h, tuple(state.flatten(0, 1).T for state in states)


def project(x, weight_x, bias, K):
    """Input part of the pre-activations for all steps, in one matrix product.

    Takes x ``(N, T, d_in)``, weight_x ``(G, d, d_in)``, bias ``(G, d)``; returns
    ``(K, G * d_s, T, N)``.
    """
    N, T, d_in = x.shape
    weight = _gates_in_blocks(weight_x, K).reshape(-1, d_in)
    offset = _gates_in_blocks(bias, K).reshape(-1, 1)
    p = torch.addmm(offset, weight, x.permute(2, 1, 0).reshape(d_in, T * N))
    return p.unflatten(0, (K, -1)).unflatten(2, (T, N))


def stack_gates(weight_h):
    """``(R, K, d_s, d_s)`` to ``(K, R * d_s, d_s)``: one product for all gates."""
    return weight_h.transpose(0, 1).flatten(1, 2)


def real_steps(lengths, T):
    """Boolean ``(N, T)``: which steps are no padding."""
    return torch.arange(T, device=lengths.device) < lengths[:, None]


def blank_padding(x, lengths):
    """Replace padded steps by zeros, so that NaN there reaches no gradient either."""
    if lengths is None:
        return x
    padded = ~real_steps(lengths, x.shape[1])
    return x.masked_fill(padded[:, :, None], 0.0)


def _walk(step, inputs, states, real, reverse):
    """Yield t and the states after step t."""
    steps = list(zip(range(len(real)), *(p.unbind(2) for p in inputs), strict=True))
    for t, *inputs_t in reversed(steps) if reverse else steps:
        new = step(*inputs_t, *states)
        if real[t] is not None:
            pairs = zip(new, states, strict=True)
            # where, not a product with the mask: 0 * NaN is NaN
            new = tuple(torch.where(real[t], a, b) for a, b in pairs)
        states = new
        yield t, states


def _collect_all(walk, real, lengths):
    hs = [None] * len(real)
    for t, states in walk:
        hs[t] = states[0].flatten(0, 1)
    h = torch.stack(hs, dim=1).permute(2, 1, 0)
    return blank_padding(h, lengths), states


def _collect_last(walk, real, lengths):
    _, states = deque(walk, maxlen=1).pop()
    return None, states


def _collect_mean(walk, real, lengths):
    total = 0.0
    for t, states in walk:
        h = states[0]
        total = total + (h if real[t] is None else torch.where(real[t], h, 0.0))
    count = len(real) if lengths is None else lengths.clamp(min=1)
    return (total / count).flatten(0, 1).T, states


COLLECT = {"all": _collect_all, "last": _collect_last, "mean": _collect_mean}


def _masks(lengths, T):
    """Per step None where every row is real, else a boolean ``(N,)``."""
    if lengths is None or len(lengths) == 0:
        return [None] * T
    shortest = int(lengths.min())
    masks = real_steps(lengths, T).unbind(1)
    return [None if t < shortest else mask for t, mask in enumerate(masks)]


def _gates_in_blocks(rows, K):
    """``(G, d, ...)`` to ``(K, G * d_s, ...)``."""
    return rows.unflatten(1, (K, -1)).transpose(0, 1).flatten(1, 2)


def _units_first(state, K):
    """``(N, d)`` to ``(K, d_s, N)``."""
    return state.T.unflatten(0, (K, -1))
