"""The long short-term memory layer."""

from functools import partial

import torch

from ._backend import choose
from ._checks import check_layer
from ._loop import blank_padding, project, run_loop, stack_gates
from ._native import offered
from ._scan import scan


def lstm(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    h0=None,
    c0=None,
    lengths=None,
    reverse=False,
    outputs="all",
    backend="auto",
):
    r"""LSTM layer whose four recurrent matrices are block diagonal.

    .. math::

        i_t &= \sigma(W_x^i x_t + W_h^i h_{t-1} + b^i) \\
        f_t &= \sigma(W_x^f x_t + W_h^f h_{t-1} + b^f) \\
        g_t &= \tanh(W_x^g x_t + W_h^g h_{t-1} + b^g) \\
        o_t &= \sigma(W_x^o x_t + W_h^o h_{t-1} + b^o) \\
        c_t &= f_t \circ c_{t-1} + i_t \circ g_t \\
        h_t &= o_t \circ \tanh(c_t)

    Parameters
    ----------
    x : tensor of shape (N, T, d_in)
    weight_x : tensor of shape (4, d, d_in)
        Gates in the order i f g o, as in torch.
    weight_h : tensor of shape (4, K, d_s, d_s)
    bias : tensor of shape (4, d)
        torch keeps two biases; this is their sum.
    h0, c0 : tensor of shape (N, d) or (d,), optional
        First state and first cell state, zeros by default.
    lengths, reverse, outputs, backend
        As in :func:`rnn`.

    Returns
    -------
    h : tensor of shape (N, T, d), (N, d) or None
        As in :func:`rnn`.
    (h_last, c_last) : tensors of shape (N, d)
        States after the last real step.

    Raises
    ------
    ValueError, TypeError
        As in :func:`rnn`.

    Notes
    -----
    With K = 1 this is ``torch.nn.LSTM``. No peepholes, no projection.

    Source: Cai, Li, Huang and Li, "ParaRNN" (arXiv 2605.02692), section 5.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.ops import lstm
    >>> x = torch.zeros(5, 7, 3)
    >>> h, (h_last, c_last) = lstm(
    ...     x, torch.zeros(4, 6, 3), torch.zeros(4, 3, 2, 2), torch.zeros(4, 6)
    ... )
    >>> h.shape, c_last.shape
    (torch.Size([5, 7, 6]), torch.Size([5, 6]))
    """
    loop = check_layer(
        x,
        weight_x,
        weight_h,
        bias,
        gates="ifgo",
        recurrent="ifgo",
        states={"h0": h0, "c0": c0},
        lengths=lengths,
        reverse=reverse,
        outputs=outputs,
    )
    kernel = partial(scan, cell="lstm")
    implementations = {
        "cpu": kernel,
        "triton": kernel,
        **offered("lstm"),
        "reference": _reference,
    }
    run = choose(backend, x, weight_h, implementations)
    return run(x, weight_x, weight_h, bias, loop)


def _reference(x, weight_x, weight_h, bias, loop):
    p = project(blank_padding(x, loop.lengths), weight_x, bias, K=weight_h.shape[1])
    step = partial(_step, u=stack_gates(weight_h))
    return run_loop(step, (p,), loop)


def _step(p, h, c, *, u):
    i, f, g, o = torch.baddbmm(p, u, h).chunk(4, dim=1)
    i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
    g = torch.tanh(g)
    c = f * c + i * g
    h = o * torch.tanh(c)
    return h, c
