"""One step of every cell, forward and backward, for the block of one lane.

Vectors are tuples with a tensor of lanes for each unit; those of several gates follow
each other, as in ``weight_x``. The names and the numbers in parentheses are those of
doc/backward.rst.
"""

from typing import NamedTuple

import triton
import triton.language as tl

from ._functions import sigmoid, tanh

# -- products with the blocks ----------------------------------------------------------


@triton.jit
def product(a, w, GATE: tl.constexpr, u: tl.constexpr, v, DS: tl.constexpr):
    """A number plus row u of a gate's block times a vector."""
    for j in tl.static_range(DS):
        a = tl.fma(w[(GATE * DS + u) * DS + j], v[j], a)
    return a


@triton.jit
def transposed(w, u: tl.constexpr, delta, DS: tl.constexpr):
    """Column u of the blocks times the deltas of as many gates as there are."""
    a = w[u] * delta[0]
    for row in tl.static_range(1, len(delta)):
        a = tl.fma(w[row * DS + u], delta[row], a)
    return a


@triton.jit
def preactivation(p, w, GATE: tl.constexpr, u: tl.constexpr, h, DS: tl.constexpr):
    return product(p[GATE * DS + u], w, GATE, u, h, DS)


# -- rnn -------------------------------------------------------------------------------


@triton.jit
def activation(a, PHI: tl.constexpr):
    if PHI == "tanh":
        a = tanh(a)
    elif PHI == "relu":
        a = tl.maximum(a, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif PHI == "sigmoid":
        a = sigmoid(a)
    return a


@triton.jit
def slope(y, PHI: tl.constexpr):
    """(6): the derivative of the activation, from its value."""
    if PHI == "tanh":
        y = 1.0 - y * y
    elif PHI == "relu":
        y = tl.where(y > 0.0, 1.0, 0.0)
    elif PHI == "sigmoid":
        y = y * (1.0 - y)
    else:
        y = 1.0
    return y


@triton.jit
def rnn_forward(p, h, c, w, b_q, PHI: tl.constexpr, DS: tl.constexpr):
    new = ()
    for u in tl.static_range(DS):
        new += (activation(preactivation(p, w, 0, u, h, DS), PHI),)
    return new, c


@triton.jit
def rnn_backward(H, C, p, h, c, h_t, c_t, w, b_q, PHI: tl.constexpr, DS: tl.constexpr):
    delta, before = (), ()
    for u in tl.static_range(DS):
        delta += (H[u] * slope(h_t[u], PHI),)  # (3)
    for u in tl.static_range(DS):
        before += (transposed(w, u, delta, DS),)  # (4)
    return before, C, delta, delta, h


# -- lstm ------------------------------------------------------------------------------


@triton.jit
def lstm_forward(p, h, c, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr):
    h_new, c_new = (), ()
    for u in tl.static_range(DS):
        i = sigmoid(preactivation(p, w, 0, u, h, DS))
        f = sigmoid(preactivation(p, w, 1, u, h, DS))
        g = tanh(preactivation(p, w, 2, u, h, DS))
        o = sigmoid(preactivation(p, w, 3, u, h, DS))
        cell = f * c[u] + i * g
        c_new += (cell,)
        h_new += (o * tanh(cell),)
    return h_new, c_new


@triton.jit
def lstm_backward(
    H, C, p, h, c, h_t, c_t, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr
):
    d_i, d_f, d_g, d_o, c_before, h_before = (), (), (), (), (), ()
    for u in tl.static_range(DS):
        i = sigmoid(preactivation(p, w, 0, u, h, DS))
        f = sigmoid(preactivation(p, w, 1, u, h, DS))
        g = tanh(preactivation(p, w, 2, u, h, DS))
        o = sigmoid(preactivation(p, w, 3, u, h, DS))
        q = tanh(c_t[u])
        both = C[u] + H[u] * o * (1.0 - q * q)  # (7)
        d_i += (both * g * i * (1.0 - i),)  # (8)
        d_f += (both * c[u] * f * (1.0 - f),)  # (9)
        d_g += (both * i * (1.0 - g * g),)  # (10)
        d_o += (H[u] * q * o * (1.0 - o),)  # (11)
        c_before += (both * f,)  # (12)
    delta = d_i + d_f + d_g + d_o
    for u in tl.static_range(DS):
        h_before += (transposed(w, u, delta, DS),)  # (13)
    return h_before, c_before, delta, delta, h + h + h + h


# -- gru -------------------------------------------------------------------------------


@triton.jit
def gru_after_forward(p, h, c, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr):
    new = ()
    for u in tl.static_range(DS):
        r = sigmoid(preactivation(p, w, 0, u, h, DS))
        z = sigmoid(preactivation(p, w, 1, u, h, DS))
        n = tanh(p[2 * DS + u] + r * product(b_q[u], w, 2, u, h, DS))
        new += (n + z * (h[u] - n),)
    return new, c


@triton.jit
def gru_after_backward(
    H, C, p, h, c, h_t, c_t, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr
):
    d_r, d_z, d_n, d_q, direct, before = (), (), (), (), (), ()
    for u in tl.static_range(DS):
        r = sigmoid(preactivation(p, w, 0, u, h, DS))
        z = sigmoid(preactivation(p, w, 1, u, h, DS))
        q = product(b_q[u], w, 2, u, h, DS)
        n = tanh(p[2 * DS + u] + r * q)
        d = H[u] * (1.0 - z) * (1.0 - n * n)  # (15)
        d_r += (d * q * r * (1.0 - r),)  # (17)
        d_z += (H[u] * (h[u] - n) * z * (1.0 - z),)  # (14)
        d_n += (d,)
        d_q += (d * r,)  # (16)
        direct += (H[u] * z,)
    recurrent = d_r + d_z + d_q
    for u in tl.static_range(DS):
        before += (direct[u] + transposed(w, u, recurrent, DS),)  # (18)
    return before, C, d_r + d_z + d_n, recurrent, h + h + h


@triton.jit
def gru_before_forward(p, h, c, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr):
    e, new = (), ()
    for u in tl.static_range(DS):
        e += (sigmoid(preactivation(p, w, 0, u, h, DS)) * h[u],)
    for u in tl.static_range(DS):
        z = sigmoid(preactivation(p, w, 1, u, h, DS))
        n = tanh(preactivation(p, w, 2, u, e, DS))
        new += (n + z * (h[u] - n),)
    return new, c


@triton.jit
def gru_before_backward(
    H, C, p, h, c, h_t, c_t, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr
):
    r, e, d_r, d_z, d_n = (), (), (), (), ()
    direct, through_e, before = (), (), ()
    for u in tl.static_range(DS):
        r += (sigmoid(preactivation(p, w, 0, u, h, DS)),)
        e += (r[u] * h[u],)
    for u in tl.static_range(DS):
        z = sigmoid(preactivation(p, w, 1, u, h, DS))
        n = tanh(preactivation(p, w, 2, u, e, DS))
        d_z += (H[u] * (h[u] - n) * z * (1.0 - z),)  # (14)
        d_n += (H[u] * (1.0 - z) * (1.0 - n * n),)  # (15)
        direct += (H[u] * z,)
    for u in tl.static_range(DS):
        E = transposed(w[2 * DS * DS :], u, d_n, DS)  # (20)
        d_r += (E * h[u] * r[u] * (1.0 - r[u]),)  # (21)
        through_e += (E * r[u],)
    for u in tl.static_range(DS):
        through_h = transposed(w, u, d_r + d_z, DS)
        before += (direct[u] + through_e[u] + through_h,)  # (22)
    delta = d_r + d_z + d_n
    return before, C, delta, delta, h + h + e


# -- lru -------------------------------------------------------------------------------


@triton.jit
def candidate(p, OPTION: tl.constexpr):
    if OPTION == "tanh":
        p = tanh(p)
    return p


@triton.jit
def lru_forward(p, h, c, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr):
    new = ()
    for u in tl.static_range(DS):
        f = sigmoid(product(p[DS + u], w, 0, u, h, DS))
        new += (h[u] + f * (candidate(p[u], OPTION) - h[u]),)
    return new, c


@triton.jit
def lru_backward(
    H, C, p, h, c, h_t, c_t, w, b_q, OPTION: tl.constexpr, DS: tl.constexpr
):
    d_c, d_f, direct, before = (), (), (), ()
    for u in tl.static_range(DS):
        f = sigmoid(product(p[DS + u], w, 0, u, h, DS))
        written = candidate(p[u], OPTION)
        d_f += (H[u] * (written - h[u]) * f * (1.0 - f),)  # (24)
        if OPTION == "tanh":
            d_c += (H[u] * f * (1.0 - written * written),)  # (26)
        else:
            d_c += (H[u] * f,)  # (27)
        direct += (H[u] * (1.0 - f),)
    for u in tl.static_range(DS):
        before += (direct[u] + transposed(w, u, d_f, DS),)  # (25)
    return before, C, d_c + d_f, d_f, h


# -- the table -------------------------------------------------------------------------


class Cell(NamedTuple):
    """What the kernels need to know about a cell.

    ``forward(p, h, c, w, b_q, option, DS)`` returns the new states h and c, ``c`` an
    empty tuple for all but lstm.

    ``backward(H, C, p, h, c, h_t, c_t, w, b_q, option, DS)`` takes the gradients of the
    states after the step, what the step read, and the states it left. It returns the
    gradients of the states before it; delta of what it read of the input; delta of the
    recurrent products; and the vectors that these multiplied, one for each.
    """

    forward: object
    backward: object
    option: str
    gates: int  # in p
    products: int  # with recurrent blocks
    reads: tuple  # numbers a unit and step, forward and backward


CELLS = {
    "rnn_tanh": Cell(rnn_forward, rnn_backward, "tanh", 1, 1, (1, 2)),
    "rnn_relu": Cell(rnn_forward, rnn_backward, "relu", 1, 1, (1, 2)),
    "rnn_sigmoid": Cell(rnn_forward, rnn_backward, "sigmoid", 1, 1, (1, 2)),
    "rnn_identity": Cell(rnn_forward, rnn_backward, "identity", 1, 1, (1, 2)),
    "lstm": Cell(lstm_forward, lstm_backward, "", 4, 4, (4, 7)),
    "gru_after": Cell(gru_after_forward, gru_after_backward, "", 3, 3, (3, 5)),
    "gru_before": Cell(gru_before_forward, gru_before_backward, "", 3, 3, (3, 5)),
    "lru_tanh": Cell(lru_forward, lru_backward, "tanh", 2, 1, (2, 4)),
    "lru_highway": Cell(lru_forward, lru_backward, "highway", 1, 1, (2, 4)),
}
