"""Facts of the Light Recurrent Unit."""

import pytest
import torch
from tolerances import assert_close

from .layers import Layer

TANH, HIGHWAY = (("lru", {"candidate": value}) for value in ("tanh", "highway"))
C, F = range(2)  # rows


def gates(layer, h):
    """The write gate f at every step, (N, T, d), from the states."""
    before = torch.cat([layer.tensors["h0"][:, None], h[:, :-1]], dim=1)
    dense = torch.block_diag(*layer.tensors["weight_h"][0])
    p = layer.tensors["x"] @ layer.tensors["weight_x"][F].T + layer.tensors["bias"][F]
    return torch.sigmoid(p + before @ dense.T)


def candidates(layer):
    if layer.options["candidate"] == "highway":
        return layer.tensors["x"]
    p = layer.tensors["x"] @ layer.tensors["weight_x"][C].T + layer.tensors["bias"][C]
    return torch.tanh(p)


@pytest.mark.parametrize("variant", [TANH, HIGHWAY], ids=["tanh", "highway"])
def test_the_state_is_a_weighted_average_of_the_past(variant, backend):
    """alpha_j = f_j prod_{i>j} (1 - f_i) and alpha_0 = prod_i (1 - f_i) sum to one."""
    layer = Layer(variant, T=8)
    h, (h_last,) = layer.run(backend=backend)
    f = gates(layer, h)
    tails = [(1.0 - f[:, j:]).prod(dim=1) for j in range(9)]
    alpha = [tails[0], *(f[:, j] * tails[j + 1] for j in range(8))]
    values = [layer.tensors["h0"], *candidates(layer).unbind(1)]
    assert_close(sum(alpha), torch.ones_like(h_last))
    assert_close(h_last, sum(a * v for a, v in zip(alpha, values, strict=True)))


@pytest.mark.parametrize("variant", [TANH, HIGHWAY], ids=["tanh", "highway"])
def test_the_gate_writes(variant, backend):
    layer = Layer(variant)
    bias = layer.tensors["bias"].clone()
    bias[F] = 1e3
    h, _ = layer.run(bias=bias, backend=backend)
    assert_close(h, candidates(layer))
    bias[F] = -1e3
    _, (h_last,) = layer.run(bias=bias, backend=backend)
    assert torch.equal(h_last, layer.tensors["h0"])


def test_a_gate_that_keeps_is_the_same_model_with_its_signs_flipped(backend):
    layer = Layer(TANH, K=1, d_s=4)
    h, _ = layer.run(backend=backend)
    weight_f, bias_f, blocks = (
        -layer.tensors[name][row]
        for name, row in (("weight_x", F), ("bias", F), ("weight_h", 0))
    )
    c, state = candidates(layer), layer.tensors["h0"]
    for t in range(layer.T):
        p = layer.tensors["x"][:, t] @ weight_f.T + bias_f
        f = torch.sigmoid(p + state @ blocks[0].T)
        state = f * state + (1.0 - f) * c[:, t]
        assert_close(h[:, t], state)


@pytest.mark.parametrize("K", [3, 20])  # a narrow input and a wide one
def test_a_highway_ignores_the_rows_of_the_candidate(K, backend):
    layer = Layer(HIGHWAY, K=K)
    values = layer.run_and_gradients(backend=backend)
    for name in ("weight_x", "bias"):
        assert not values[f"d{name}"][C].any()
        layer.tensors[name][C] = float("nan")
    h, _ = layer.run(backend=backend)
    assert torch.equal(h, values["h"])


def test_a_highway_needs_an_input_as_wide_as_the_state():
    layer = Layer(TANH, d_in=5, K=3, d_s=2)
    with pytest.raises(ValueError, match=r"d_in=5.*d=6.*candidate='tanh'"):
        layer.run(candidate="highway")


def test_unknown_candidate_is_named():
    with pytest.raises(ValueError, match="candidate must be one of 'tanh', 'highway'"):
        Layer(TANH).run(candidate="identity")
