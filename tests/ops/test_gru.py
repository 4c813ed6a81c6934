"""Facts of the gated recurrent unit."""

import pytest
import torch
from tolerances import assert_close

from .layers import Layer

AFTER, BEFORE = (("gru", {"reset_after": value}) for value in (True, False))
R, Z, N = range(3)  # rows


def test_the_two_reset_gates_coincide_for_blocks_of_one_unit(backend):
    layer = Layer(AFTER, K=6, d_s=1)
    h, _ = layer.run(bias_q=None, backend=backend)
    h_before, _ = layer.run(bias_q=None, reset_after=False, backend=backend)
    assert_close(h_before, h)


def test_the_two_reset_gates_are_different_models_for_larger_blocks():
    layer = Layer(AFTER, K=3, d_s=2)
    h, _ = layer.run(bias_q=None)
    h_before, _ = layer.run(bias_q=None, reset_after=False)
    assert not torch.allclose(h_before, h, atol=1e-3)


def test_without_bias_q_it_is_zero(backend):
    layer = Layer(AFTER)
    h, _ = layer.run(bias_q=None, backend=backend)
    zeros = torch.zeros(layer.d, dtype=torch.float64)
    h_zero, _ = layer.run(bias_q=zeros, backend=backend)
    assert torch.equal(h, h_zero)


@pytest.mark.parametrize("variant", [AFTER, BEFORE], ids=["after", "before"])
def test_the_update_gate_keeps(variant, backend):
    layer = Layer(variant, T=50)
    bias = layer.tensors["bias"].clone()
    bias[Z] = 1e3
    _, (h_last,) = layer.run(bias=bias, backend=backend)
    assert torch.equal(h_last, layer.tensors["h0"])


def test_an_update_gate_that_writes_is_the_same_model_with_its_signs_flipped(backend):
    layer = Layer(BEFORE, K=1, d_s=4)
    h, _ = layer.run(backend=backend)
    names = ("weight_x", "weight_h", "bias")
    flipped = {name: layer.tensors[name].clone() for name in names}
    for tensor in flipped.values():
        tensor[Z] *= -1.0
    p = (
        torch.einsum("gdm,ntm->tgnd", flipped["weight_x"], layer.tensors["x"])
        + flipped["bias"][:, None]
    )
    U, state = flipped["weight_h"][:, 0], layer.tensors["h0"]
    for t in range(layer.T):
        r, z = (torch.sigmoid(p[t, gate] + state @ U[gate].T) for gate in (R, Z))
        n = torch.tanh(p[t, N] + (r * state) @ U[N].T)
        state = (1.0 - z) * state + z * n
        assert_close(h[:, t], state)


def test_bias_q_has_no_place_before_the_product():
    layer = Layer(AFTER)
    with pytest.raises(ValueError, match="bias_q needs reset_after=True"):
        layer.run(reset_after=False)


def test_bias_q_is_checked():
    layer = Layer(AFTER, K=3, d_s=2)
    with pytest.raises(ValueError, match=r"size 2 \(d=6\), bias_q has shape \(5,\)"):
        layer.run(bias_q=torch.zeros(5, dtype=torch.float64))
    with pytest.raises(TypeError, match=r"bias_q is torch\.float32"):
        layer.run(bias_q=torch.zeros(6))


@pytest.mark.parametrize("reset_after", ["no", 1, None])
def test_reset_after_is_a_boolean(reset_after):
    with pytest.raises(ValueError, match="reset_after must be one of True, False"):
        Layer(BEFORE).run(reset_after=reset_after)
