"""The Light Recurrent Unit (not the Linear one)."""

from functools import partial

import torch

from ._backend import choose
from ._checks import check_choice, check_layer
from ._loop import blank_padding, project, run_loop, stack_gates
from ._scan import scan

CANDIDATES = ("tanh", "highway")


def lru(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    candidate="tanh",
    h0=None,
    lengths=None,
    reverse=False,
    outputs="all",
    backend="auto",
):
    r"""Light Recurrent Unit; its one recurrent matrix, the gate's, is block diagonal.

    .. math::

        c_t &= \tanh(W_x^c x_t + b^c) \\
        f_t &= \sigma(W_x^f x_t + W_h^f h_{t-1} + b^f) \\
        h_t &= (1 - f_t) \circ h_{t-1} + f_t \circ c_t

    and with ``candidate="highway"`` :math:`c_t = x_t`.

    Parameters
    ----------
    x : tensor of shape (N, T, d_in)
        Highway candidates need d_in = d.
    weight_x : tensor of shape (2, d, d_in)
        Gates in the order c f: candidate, gate. Highway candidates ignore row c.
    weight_h : tensor of shape (1, K, d_s, d_s)
        The gate's recurrent blocks. K = 1 is the unit as published; K > 1 is our
        extension.
    bias : tensor of shape (2, d)
        The published unit has none for c: pass zeros. Highway candidates ignore row c.
    candidate : {"tanh", "highway"}, default="tanh"
    h0 : tensor of shape (N, d) or (d,), optional
    lengths, reverse, outputs, backend
        As in :func:`rnn`.

    Returns
    -------
    h : tensor of shape (N, T, d), (N, d) or None
        As in :func:`rnn`.
    h_last : tensor of shape (N, d)

    Raises
    ------
    ValueError, TypeError
        As in :func:`rnn`; also for highway candidates with d_in other than d.

    Notes
    -----
    As printed in the paper, :math:`f` is the share that is written and
    :math:`1 - f` the share that is kept.

    Source: Ye et al., "Light Recurrent Unit", Electronics 13(16):3204, 2024,
    equation 3; the highway form is its section 3.3.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.ops import lru
    >>> x = torch.tensor([[[8.0], [4.0], [0.0]]])
    >>> zeros = torch.zeros(2, 1, 1), torch.zeros(1, 1, 1, 1), torch.zeros(2, 1)
    >>> h, h_last = lru(x, *zeros, candidate="highway")  # f is 1/2 everywhere
    >>> h.flatten().tolist()
    [4.0, 4.0, 2.0]
    """
    loop = check_layer(
        x,
        weight_x,
        weight_h,
        bias,
        gates="cf",
        recurrent="f",
        states={"h0": h0},
        lengths=lengths,
        reverse=reverse,
        outputs=outputs,
    )
    check_choice("candidate", candidate, CANDIDATES)
    _, d, d_in = weight_x.shape
    if candidate == "highway" and d_in != d:
        raise ValueError(
            f"candidate='highway' needs d_in = d; x has d_in={d_in}, weight_x has "
            f"d={d}. Use candidate='tanh'"
        )
    kernel = partial(scan, cell="lru", option=candidate)
    reference = partial(_reference, candidate=candidate)
    implementations = {"cpu": kernel, "triton": kernel, "reference": reference}
    run = choose(backend, x, weight_h, implementations)
    h, (h_last,) = run(x, weight_x, weight_h, bias, loop)
    return h, h_last


def _reference(x, weight_x, weight_h, bias, loop, *, candidate):
    x, (_, K, d_s, _) = blank_padding(x, loop.lengths), weight_h.shape
    if candidate == "highway":
        c = x.permute(2, 1, 0).unflatten(0, (K, d_s))
        p_f = project(x, weight_x[1:], bias[1:], K)
    else:
        p_c, p_f = project(x, weight_x, bias, K).chunk(2, dim=1)
        c = torch.tanh(p_c)
    step = partial(_step, u=stack_gates(weight_h))
    return run_loop(step, (c, p_f), loop)


def _step(c, p, h, *, u):
    f = torch.sigmoid(torch.baddbmm(p, u, h))
    h = torch.lerp(h, c, f)  # (1 - f) h + f c
    return (h,)
