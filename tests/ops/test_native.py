"""Dense layers by torch's own kernels equal the reference."""

import pytest
import torch
from tolerances import assert_close

from skpararnn.ops import _native, gru, lru, rnn
from skpararnn.ops._backend import choose

from .layers import Layer, variant_id

VARIANTS = [
    ("rnn", {"activation": "tanh"}),
    ("rnn", {"activation": "relu"}),
    ("lstm", {}),
    ("gru", {"reset_after": True}),
]
variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)


def assert_same(actual, expected, times=1):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert_close(value, expected[name], times=times)


@variants
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
@pytest.mark.parametrize("lengths", [None, [4, 0, 7, 1]], ids=["full", "ragged"])
def test_native_equals_the_reference(variant, reverse, outputs, lengths, dtype):
    layer = Layer(variant, dtype, N=4, T=7, d_in=3, K=1, d_s=5)
    if lengths is not None:
        lengths = torch.tensor(lengths)
        layer.tensors["x"][1] = torch.nan  # padding
    how = {"reverse": reverse, "outputs": outputs, "lengths": lengths}
    native = layer.run_and_gradients(**how, backend="native")
    assert_same(native, layer.run_and_gradients(**how, backend="reference"), times=5)


@variants
def test_native_runs_without_gradients_and_first_states(variant):
    layer = Layer(variant, N=2, T=4, d_in=3, K=1, d_s=5)
    none = dict.fromkeys(layer.tensors.keys() & {"h0", "c0"})
    with torch.no_grad():
        h, _ = layer.run(backend="native", **none)
        expected, _ = layer.run(backend="reference", **none)
    assert_close(h, expected, times=5)


def test_weights_lie_in_one_piece_of_memory():
    """Or cuDNN copies them in every call, with a warning."""
    gates = torch.ones(3, 5, 2), torch.ones(3, 1, 5, 5), torch.ones(3, 5), torch.ones(5)
    weights = _native._flat_weights(*gates)
    start = weights[0].data_ptr()
    for weight in weights:
        assert weight.data_ptr() == start
        start += weight.numel() * weight.element_size()
    assert [weight.shape[0] for weight in weights] == [15, 15, 15, 15]


@pytest.mark.parametrize(
    ("op", "gates", "options"),
    [
        (rnn, 1, {"activation": "sigmoid"}),
        (gru, 3, {"reset_after": False}),
        (lru, 2, {}),
    ],
    ids=["rnn", "gru", "lru"],
)
def test_what_torch_does_not_have_is_refused(op, gates, options):
    x, R = torch.zeros(2, 3, 2), 1 if op is lru else gates
    weights = torch.zeros(gates, 4, 2), torch.zeros(R, 1, 4, 4), torch.zeros(gates, 4)
    with pytest.raises(ValueError, match="backend='native' does not have this op; use"):
        op(x, *weights, **options, backend="native")


def test_several_blocks_are_refused():
    weights = torch.zeros(1, 4, 2), torch.zeros(1, 2, 2, 2), torch.zeros(1, 4)
    with pytest.raises(ValueError, match="dense layers, K=1; weight_h has K=2 blocks"):
        rnn(torch.zeros(2, 3, 2), *weights, backend="native")


def test_auto_takes_it_for_dense_layers_where_there_are_no_kernels():
    elsewhere = torch.zeros(1, 1, 1, device="meta")
    table = {"cpu": abs, "triton": max, "native": min, "reference": len}
    assert choose("auto", elsewhere, torch.zeros(1, 1, 64, 64), table) is min
    assert choose("auto", elsewhere, torch.zeros(1, 2, 32, 32), table) is len
