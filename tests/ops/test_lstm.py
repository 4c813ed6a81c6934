"""Facts of the long short-term memory."""

import torch
from tolerances import assert_close

from skpararnn.ops import lstm

from .layers import Layer

VARIANT = ("lstm", {})
IN, FORGET, CELL, OUT = range(4)  # rows


def test_an_open_forget_gate_and_a_closed_input_gate_keep_the_cell_state():
    layer = Layer(VARIANT, T=50)
    bias = layer.tensors["bias"].clone()
    bias[FORGET], bias[IN] = 1e3, -1e3
    _, (_, c_last) = layer.run(bias=bias)
    assert torch.equal(c_last, layer.tensors["c0"])


def test_a_closed_output_gate_hides_the_cell_state():
    layer = Layer(VARIANT)
    bias = layer.tensors["bias"].clone()
    bias[OUT] = -1e3
    h, (_, c_last) = layer.run(bias=bias)
    assert not h.any()
    assert c_last.all()


def test_without_recurrence_the_cell_state_is_a_sum_over_the_past():
    """c_T = sum_j (prod_{i>j} f_i) i_j g_j + (prod_i f_i) c_0."""
    layer = Layer(VARIANT, T=6)
    x, weight_x = layer.tensors["x"], layer.tensors["weight_x"]
    none = torch.zeros_like(layer.tensors["weight_h"])
    _, (_, c_last) = layer.run(weight_h=none)
    p = (
        torch.einsum("gdm,ntm->gntd", weight_x, x)
        + layer.tensors["bias"][:, None, None]
    )
    i, f, g = p[IN].sigmoid(), p[FORGET].sigmoid(), p[CELL].tanh()
    kept = layer.tensors["c0"] * f.prod(dim=1)
    for j in range(6):
        kept = kept + f[:, j + 1 :].prod(dim=1) * i[:, j] * g[:, j]
    assert_close(c_last, kept)


def test_last_states_are_a_pair():
    layer = Layer(VARIANT)
    h, last = lstm(**layer.tensors)
    assert isinstance(last, tuple)
    assert torch.equal(last[0], h[:, -1])
