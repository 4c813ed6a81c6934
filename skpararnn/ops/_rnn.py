"""The simple recurrent layer."""

from functools import partial

import torch

from ._backend import choose
from ._checks import check_choice, check_layer
from ._loop import blank_padding, project, run_loop, stack_gates
from ._native import offered
from ._scan import scan


def _identity(a):
    return a


ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": _identity,
}


def rnn(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    activation="tanh",
    h0=None,
    lengths=None,
    reverse=False,
    outputs="all",
    backend="auto",
):
    r"""Simple recurrent layer with a block-diagonal recurrent matrix.

    .. math::

        h_t = \phi(W_x x_t + W_h h_{t-1} + b),
        \qquad W_h = W_h^{(1)} \oplus \dots \oplus W_h^{(K)}

    Parameters
    ----------
    x : tensor of shape (N, T, d_in)
        float32 or float64, and everything else alike. T is at least 1.
    weight_x : tensor of shape (1, d, d_in)
    weight_h : tensor of shape (1, K, d_s, d_s)
        The K diagonal blocks of :math:`W_h`; d = K * d_s. K = 1 is the dense layer,
        d_s = 1 a diagonal recurrence.
    bias : tensor of shape (1, d)
    activation : {"tanh", "relu", "sigmoid", "identity"}, default="tanh"
        :math:`\phi`. With "relu" and "identity" nothing bounds the states.
    h0 : tensor of shape (N, d) or (d,), optional
        First state, zeros by default; (d,) is shared by all rows.
    lengths : integer tensor of shape (N,), optional
        Row n has ``lengths[n]`` real steps and padding after them, 0 to T; all steps
        are real by default. What stands at padded steps, NaN included, has no
        influence; a row of length 0 keeps its first state. Lengths on a CUDA device
        are not checked, which would mean to wait for it, but cut to 0 and T.
    reverse : bool, default=False
        Run from the last real step to the first.
    outputs : {"all", "last", "mean"}, default="all"
        What to return as `h`; states that are not asked for are not stored.
    backend : {"auto", "cpu", "triton", "native", "reference"}, default="auto"
        Which implementation runs. "cpu": the fast kernel, for CPU tensors. "triton":
        that for CUDA tensors, with blocks of up to 8 units (lstm, gru: 4). "native":
        torch's own layer, which is cuDNN's on CUDA, for K = 1. "reference": plain
        torch, on every device and many times differentiable. "auto" picks the fastest
        that can run.

    Returns
    -------
    h : tensor of shape (N, T, d), (N, d) or None
        "all": every state, 0 at padded steps. "mean": the mean over real steps, 0 for
        a row of length 0. "last": None.
    h_last : tensor of shape (N, d)
        State after the last real step; with `reverse` that is step 0.

    Raises
    ------
    ValueError
        For shapes or devices that do not agree (both sides are named), T = 0, a length
        outside 0..T (its row is named), an unknown activation, outputs or backend, and
        a backend that cannot run here (the message has the reason).
    TypeError
        For dtypes that differ or are neither float32 nor float64, lengths that are no
        integers, arguments that are no tensors.

    Notes
    -----
    Everything is differentiable, by "cpu" and "triton" once. Memory for the backward
    pass is linear in T; "cpu" keeps one state in 32 (gated cells: in 16) and computes
    the others anew. Of more than 32 features it also keeps their part of the
    pre-activations, d numbers a step and gate. "triton" keeps all states, and of gated
    cells the pre-activations.

    "triton" compiles when a cell, block size or kind of output is new, which takes
    seconds and is kept on disk; N, T and K are not compiled for.

    Source: Cai, Li, Huang and Li, "ParaRNN" (arXiv 2605.02692), equation 3.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.ops import rnn
    >>> x = torch.tensor([[[1.0], [0.0], [0.0]]])
    >>> half = torch.full((1, 1, 1, 1), 0.5)
    >>> h, h_last = rnn(
    ...     x, torch.ones(1, 1, 1), half, torch.zeros(1, 1), activation="identity"
    ... )
    >>> h.flatten().tolist()
    [1.0, 0.5, 0.25]
    """
    loop = check_layer(
        x,
        weight_x,
        weight_h,
        bias,
        gates="a",
        recurrent="a",
        states={"h0": h0},
        lengths=lengths,
        reverse=reverse,
        outputs=outputs,
    )
    check_choice("activation", activation, ACTIVATIONS)
    kernel = partial(scan, cell="rnn", option=activation)
    reference = partial(_reference, activation=activation)
    implementations = {
        "cpu": kernel,
        "triton": kernel,
        **offered(f"rnn_{activation}"),
        "reference": reference,
    }
    run = choose(backend, x, weight_h, implementations)
    h, (h_last,) = run(x, weight_x, weight_h, bias, loop)
    return h, h_last


def _reference(x, weight_x, weight_h, bias, loop, *, activation):
    p = project(blank_padding(x, loop.lengths), weight_x, bias, K=weight_h.shape[1])
    step = partial(_step, u=stack_gates(weight_h), phi=ACTIVATIONS[activation])
    return run_loop(step, (p,), loop)


def _step(p, h, *, u, phi):
    h = phi(torch.baddbmm(p, u, h))
    return (h,)
