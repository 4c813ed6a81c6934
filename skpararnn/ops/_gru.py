"""The gated recurrent unit."""

from functools import partial

import torch

from ._backend import choose
from ._checks import BOOLEANS, check_choice, check_layer, check_unit_vector
from ._loop import blank_padding, project, run_loop, stack_gates
from ._native import offered
from ._scan import scan


def gru(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    bias_q=None,
    reset_after=True,
    h0=None,
    lengths=None,
    reverse=False,
    outputs="all",
    backend="auto",
):
    r"""GRU layer whose three recurrent matrices are block diagonal.

    .. math::

        r_t &= \sigma(W_x^r x_t + W_h^r h_{t-1} + b^r) \\
        z_t &= \sigma(W_x^z x_t + W_h^z h_{t-1} + b^z) \\
        n_t &= \tanh(W_x^n x_t + b^n + r_t \circ (W_h^n h_{t-1} + b^q)) \\
        h_t &= (1 - z_t) \circ n_t + z_t \circ h_{t-1}

    and with ``reset_after=False``

    .. math::

        n_t = \tanh(W_x^n x_t + b^n + W_h^n (r_t \circ h_{t-1}))

    Parameters
    ----------
    x : tensor of shape (N, T, d_in)
    weight_x : tensor of shape (3, d, d_in)
        Gates in the order r z n, as in torch; z keeps.
    weight_h : tensor of shape (3, K, d_s, d_s)
    bias : tensor of shape (3, d)
        For r and z torch keeps two biases; this is their sum. Row n is torch's
        ``bias_ih``.
    bias_q : tensor of shape (d,), optional
        :math:`b^q`, torch's ``bias_hh`` of n; zeros by default. Belongs to
        ``reset_after=True`` alone.
    reset_after : bool, default=True
        Whether the reset gate acts after the recurrent product (torch, cuDNN) or
        before it. For d_s >= 2 these are different models; for d_s = 1 and
        :math:`b^q = 0` they coincide.
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
        As in :func:`rnn`; also for `bias_q` with ``reset_after=False``.

    Notes
    -----
    With K = 1 and ``reset_after=True`` this is ``torch.nn.GRU``.

    Sources: Cho et al. 2014 for the reset before the product; torch for the other form.

    Examples
    --------
    >>> import torch
    >>> from skpararnn.ops import gru
    >>> x = torch.zeros(5, 7, 3)
    >>> h, h_last = gru(
    ...     x, torch.zeros(3, 6, 3), torch.zeros(3, 3, 2, 2), torch.zeros(3, 6)
    ... )
    >>> h.shape, h_last.shape
    (torch.Size([5, 7, 6]), torch.Size([5, 6]))
    """
    loop = check_layer(
        x,
        weight_x,
        weight_h,
        bias,
        gates="rzn",
        recurrent="rzn",
        states={"h0": h0},
        lengths=lengths,
        reverse=reverse,
        outputs=outputs,
    )
    check_choice("reset_after", reset_after, BOOLEANS)
    if bias_q is not None:
        check_unit_vector("bias_q", bias_q, x, weight_h)
        if not reset_after:
            raise ValueError("bias_q needs reset_after=True; got reset_after=False")
    option = "after" if reset_after else "before"
    kernel = partial(scan, cell="gru", option=option)
    reference = partial(_reference, reset_after=reset_after)
    implementations = {
        "cpu": kernel,
        "triton": kernel,
        **offered(f"gru_{option}"),
        "reference": reference,
    }
    run = choose(backend, x, weight_h, implementations)
    h, (h_last,) = run(x, weight_x, weight_h, bias, loop, bias_q=bias_q)
    return h, h_last


def _reference(x, weight_x, weight_h, bias, loop, *, bias_q, reset_after):
    _, K, d_s, _ = weight_h.shape
    p = project(blank_padding(x, loop.lengths), weight_x, bias, K)
    u = stack_gates(weight_h)
    if reset_after:
        b_q = x.new_zeros(K, d_s, 1) if bias_q is None else bias_q.reshape(K, d_s, 1)
        step = partial(_step_after, u=u, b_q=b_q)
    else:
        u_rz, u_n = u.split([2 * d_s, d_s], dim=1)
        step = partial(_step_before, u_rz=u_rz, u_n=u_n)
    return run_loop(step, (p,), loop)


def _step_after(p, h, *, u, b_q):
    p_r, p_z, p_n = p.chunk(3, dim=1)
    q_r, q_z, q_n = torch.bmm(u, h).chunk(3, dim=1)
    r = torch.sigmoid(p_r + q_r)
    z = torch.sigmoid(p_z + q_z)
    n = torch.tanh(p_n + r * (q_n + b_q))
    h = torch.lerp(n, h, z)  # (1 - z) n + z h
    return (h,)


def _step_before(p, h, *, u_rz, u_n):
    d_s = h.shape[1]
    p_rz, p_n = p.split([2 * d_s, d_s], dim=1)
    r, z = torch.sigmoid(torch.baddbmm(p_rz, u_rz, h)).chunk(2, dim=1)
    n = torch.tanh(torch.baddbmm(p_n, u_n, r * h))
    h = torch.lerp(n, h, z)  # (1 - z) n + z h
    return (h,)
