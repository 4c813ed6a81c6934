"""Numbers at the edge of the CPU kernel: not finite, huge, denormal, none at all."""

import numpy as np
import pytest
import torch
from tolerances import assert_close

from skpararnn.ops import gru, lru, rnn

from .layers import VARIANTS, bounded_layer, variant_id

pytestmark = pytest.mark.usefixtures("kernel")

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
# lanes are blocks, with a rest; lanes are units; dense; and a wide input
shapes = pytest.mark.parametrize(
    ("K", "d_s", "d_in"),
    [(9, 3, 3), (3, 17, 3), (1, 5, 1), (41, 1, 41)],
    ids=["blocks", "units", "dense", "wide"],
)


def layer_of(variant, dtype=torch.float32, **sizes):
    """A few tiles of rows, a few chunks of steps."""
    return bounded_layer(variant, dtype, **{"N": 20, "T": 40} | sizes)


# -- not finite ------------------------------------------------------------------------


@variants
@shapes
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf], ids=str)
def test_a_number_that_is_not_finite_stays_in_its_row(variant, K, d_s, d_in, bad):
    layer = layer_of(variant, K=K, d_s=d_s, d_in=d_in)
    before = layer.run_and_gradients(backend="cpu")
    layer.tensors["x"][7, 20] = bad
    after = layer.run_and_gradients(backend="cpu")
    others = torch.arange(layer.N) != 7
    for name in ("h", "h_last", "c_last", "dx", "dh0", "dc0"):
        if name in before:
            assert torch.equal(after[name][others], before[name][others]), name
    assert torch.equal(after["h"][7, :20], before["h"][7, :20])


@variants
@shapes
def test_nan_is_not_lost(variant, K, d_s, d_in):
    layer = layer_of(variant, K=K, d_s=d_s, d_in=d_in)
    layer.tensors["x"][7, 20] = torch.nan
    results = layer.run_and_gradients(backend="cpu")
    assert results["h"][7, 20:].isnan().all()
    assert results["h_last"][7].isnan().all()
    assert results["dweight_h"].isnan().all()


@variants
@shapes
@pytest.mark.parametrize("where", ["weight_h", "bias", "h0"])
def test_nan_in_one_unit_does_not_cross_blocks(variant, K, d_s, d_in, where):
    layer = layer_of(variant, K=K, d_s=d_s, d_in=d_in)
    before, _ = layer.run(backend="cpu")
    bad = layer.tensors[where].clone()
    bad[(-1, 0) if where == "weight_h" else (slice(None), 0)] = torch.nan
    after, _ = layer.run(backend="cpu", **{where: bad})
    assert after[:, :, 0].isnan().all()
    assert torch.equal(after[:, :, d_s:], before[:, :, d_s:])


@shapes
@pytest.mark.parametrize("sign", [1, -1])
def test_infinity_saturates_tanh(K, d_s, d_in, sign, dtype):
    layer = layer_of(("rnn", {"activation": "tanh"}), dtype, K=K, d_s=d_s, d_in=d_in)
    layer.tensors["weight_x"].abs_()
    layer.tensors["x"][:, 20] = sign * torch.inf
    results = layer.run_and_gradients(backend="cpu")
    assert (results["h"][:, 20] == sign).all()
    assert results["h"].isfinite().all()
    assert results["dx"].isfinite().all()


# -- huge ------------------------------------------------------------------------------

SATURATING = [
    variant
    for variant in VARIANTS
    if variant[1].get("activation") not in ("relu", "identity")
]


@pytest.mark.parametrize("variant", SATURATING, ids=variant_id)
@shapes
@pytest.mark.parametrize("size", [1e6, 1e30])
def test_huge_numbers_saturate(variant, K, d_s, d_in, size, dtype):
    layer = layer_of(variant, dtype, K=K, d_s=d_s, d_in=d_in)
    for name, unit in (("x", 1.0), ("weight_x", size)):  # d_in is odd: no sum is small
        layer.tensors[name] = unit * layer.tensors[name].sign()
    singles = layer.tensors
    results = layer.run_and_gradients(backend="cpu")
    for name, value in results.items():
        assert value.isfinite().all(), name
    layer.tensors = {name: tensor.double() for name, tensor in singles.items()}
    truth, *_ = layer.run(backend="reference")
    assert_close(results["h"], truth)


@pytest.mark.parametrize("size", [20.0, 1e6, 1e20])
@pytest.mark.parametrize(("activation", "lowest"), [("tanh", -1), ("sigmoid", 0)])
def test_saturated_units_are_constant_to_the_last_bit(activation, lowest, size):
    x = torch.tensor([[[size], [-size]]])
    weight_x = torch.ones(1, 16, 1, requires_grad=True)
    others = torch.zeros(1, 16, 1, 1), torch.zeros(1, 16)
    h, _ = rnn(x, weight_x, *others, activation=activation, backend="cpu")
    assert (h[0, 0] == 1).all()
    assert (h[0, 1] == lowest).all()
    (dweight_x,) = torch.autograd.grad(h.sum(), weight_x)
    assert not dweight_x.any()


@pytest.mark.parametrize(
    ("op", "gates", "recurrent", "bias"),
    [(gru, 3, 3, [0.0, 30.0, -5.0]), (lru, 2, 1, [5.0, -30.0])],
    ids=["gru", "lru"],
)
def test_a_gate_that_is_shut_stays_shut(op, gates, recurrent, bias):
    x, weight_x = torch.zeros(1, 5000, 1), torch.zeros(gates, 8, 1)
    bias, h0 = torch.tensor(bias)[:, None].expand(gates, 8), torch.full((1, 8), 0.7)
    weight_h = torch.zeros(recurrent, 8, 1, 1)
    _, h = op(x, weight_x, weight_h, bias, h0=h0, outputs="last", backend="cpu")
    assert torch.equal(h, h0)


# -- denormal --------------------------------------------------------------------------


def test_denormal_numbers_are_as_they_were_after_a_call():
    layer_of(VARIANTS[0], d_s=2).run_and_gradients(backend="cpu")
    assert np.float32(1e-40) * np.float32(1) > 0
    assert torch.tensor(1e-40) * 1 > 0


def test_denormal_numbers_count_as_zero():
    """Vanishing states and gradients would be many times slower."""
    layer = layer_of(("rnn", {"activation": "identity"}), d_s=2)
    for name in ("x", "bias"):
        layer.tensors[name].zero_()
    h, _ = layer.run(h0=torch.full((layer.N, layer.d), 1e-40), backend="cpu")
    assert not h.any()


# -- none ------------------------------------------------------------------------------


@variants
@shapes
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_no_rows_have_gradients_of_zero(variant, K, d_s, d_in, outputs):
    layer = layer_of(variant, N=1, K=K, d_s=d_s, d_in=d_in)
    for name in layer.tensors.keys() & {"x", "h0", "c0"}:
        layer.tensors[name] = layer.tensors[name][:0]
    results = layer.run_and_gradients(outputs=outputs, backend="cpu")
    for name, tensor in layer.tensors.items():
        assert results[f"d{name}"].shape == tensor.shape
        assert not results[f"d{name}"].any(), name
