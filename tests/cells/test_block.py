"""The layer that owns the parameters of a cell."""

import copy
import pickle

import numpy as np
import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS, BlockRecurrentCell

every_cell = pytest.mark.parametrize("cell", CELLS)


def make(d_in=3, seed=0, **options):
    options = {"d_s": 2, "K": 4, "dtype": torch.float64} | options
    return BlockRecurrentCell(
        d_in, **options, generator=torch.Generator().manual_seed(seed)
    )


def batch(N=4, T=6, d_in=3):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, T, d_in, generator=generator, dtype=torch.float64)
    return x, torch.tensor([6, 1, 3, 5])[:N]


def count(layer):
    return sum(parameter.numel() for parameter in layer.parameters())


# -- parameters ------------------------------------------------------------------------


COUNTS = [  # d_in inputs, d = K * d_s units
    ("rnn", {}, lambda d_in, d, d_s: d * d_in + d * d_s + d),
    ("lstm", {}, lambda d_in, d, d_s: 4 * (d * d_in + d * d_s + d)),
    ("gru", {}, lambda d_in, d, d_s: 3 * (d * d_in + d * d_s) + 4 * d),
    (
        "gru",
        {"reset_after": False},
        lambda d_in, d, d_s: 3 * (d * d_in + d * d_s) + 3 * d,
    ),
    ("lru", {}, lambda d_in, d, d_s: 2 * d * d_in + d * d_s + d),
]


@pytest.mark.parametrize(("cell", "options", "formula"), COUNTS)
@pytest.mark.parametrize(("d_s", "K"), [(2, 64), (128, 1), (1, 7), (3, 5)])
def test_number_of_parameters(cell, options, formula, d_s, K):
    for d_in in (1, 9):
        layer = make(d_in, cell=cell, d_s=d_s, K=K, **options)
        assert count(layer) == formula(d_in, d_s * K, d_s)


@pytest.mark.parametrize(
    ("cell", "blocks", "dense"),
    [
        ("rnn", 512, 16640),
        ("lstm", 2048, 66560),
        ("gru", 1664, 50048),
        ("lru", 640, 16768),
    ],
)
def test_number_of_parameters_at_width_128(cell, blocks, dense):
    assert count(make(1, cell=cell, d_s=2, K=64)) == blocks
    assert count(make(1, cell=cell, d_s=128, K=1)) == dense


def test_highway_holds_the_gate_alone():
    layer = make(8, cell="lru", candidate="highway")
    assert layer.weight_x.shape == (1, 8, 8)
    assert layer.bias.shape == (1, 8)
    assert count(layer) == 8**2 + 8 * 2 + 8


@every_cell
def test_shapes_are_block_major_with_gates_first(cell):
    layer, spec = make(cell=cell, d_s=2, K=4), CELLS[cell]
    assert layer.weight_x.shape == (len(spec.gates), 8, 3)
    assert layer.weight_h.shape == (len(spec.recurrent), 4, 2, 2)
    assert layer.bias.shape == (len(spec.biased), 8)
    assert layer.recurrent_blocks() is layer.weight_h


def test_dtype_is_the_default_one_unless_given():
    assert BlockRecurrentCell(3).weight_x.dtype == torch.float32
    assert make(dtype=torch.float64).weight_x.dtype == torch.float64


@every_cell
def test_state_dict_holds_the_parameters_and_nothing_else(cell):
    for d_s in (2, [1, 3, 1, 3]):
        layer = make(cell=cell, d_s=d_s)
        names = [name for name, _ in layer.named_parameters()]
        assert list(layer.state_dict()) == names


@every_cell
@pytest.mark.parametrize("d_s", [2, [3, 1, 2, 1]], ids=str)
def test_copies_and_pickles_are_the_same_layer(cell, d_s):
    layer, (x, lengths) = make(cell=cell, d_s=d_s), batch()
    h, _ = layer(x, lengths)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x, lengths)[0], h)


def test_print_shows_the_architecture():
    assert repr(make(cell="gru", d_s=2, K=4)) == (
        "BlockRecurrentCell(3, cell='gru', d_s=2, K=4, reset_after=True)"
    )
    assert "d_s=[1, 2], K=2" in repr(make(d_s=np.array([1, 2]), K=2))


# -- forward ---------------------------------------------------------------------------


@every_cell
@pytest.mark.parametrize("reverse", [False, True])
def test_layer_is_its_op(cell, reverse):
    spec, (x, lengths) = CELLS[cell], batch()
    layer = make(cell=cell, reverse=reverse)
    bias = torch.zeros(len(spec.gates), 8, dtype=torch.float64)
    for gate, row in zip(spec.biased, layer.bias, strict=True):
        bias[spec.gates.index(gate)] = row
    extra = {name: getattr(layer, name) for name in spec.extra_bias}
    h, last = spec.op(
        x,
        layer.weight_x,
        layer.weight_h,
        bias,
        **extra,
        lengths=lengths,
        reverse=reverse,
    )
    h_layer, states = layer(x, lengths)
    assert torch.equal(h_layer, h)
    assert torch.equal(states[0], last[0] if isinstance(last, tuple) else last)


def test_highway_layer_is_its_op():
    layer, (x, _) = make(8, cell="lru", candidate="highway"), batch(d_in=8)
    weight_x = torch.cat([torch.zeros_like(layer.weight_x), layer.weight_x])
    bias = torch.cat([torch.zeros_like(layer.bias), layer.bias])
    h, _ = CELLS["lru"].op(x, weight_x, layer.weight_h, bias, candidate="highway")
    assert torch.equal(layer(x)[0], h)


def test_options_reach_the_op():
    x, _ = batch()
    assert (make(activation="relu")(x)[0] >= 0).all()
    after = make(cell="gru")
    before = make(cell="gru", reset_after=False)
    assert not hasattr(before, "bias_q")
    before.load_state_dict(after.state_dict(), strict=False)
    assert not torch.allclose(after(x)[0], before(x)[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_does_not_reach_the_recurrence(cell, backend, dtype):
    layer = BlockRecurrentCell(3, cell=cell, K=2, backend=backend)
    x = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    lengths = torch.tensor([7, 3, 1, 7, 2])
    expected, _ = layer(x.float(), lengths)
    with torch.autocast("cpu", torch.bfloat16):
        h, _ = layer(x, lengths)
    assert h.dtype == torch.float32
    assert torch.equal(h, expected)


@every_cell
@pytest.mark.parametrize("d_s", [2, [3, 1, 2, 1]], ids=str)
def test_states_carry_on(cell, d_s):
    layer, (x, _) = make(cell=cell, d_s=d_s), batch()
    h, states = layer(x)
    _, first = layer(x[:, :2])
    assert len(first) == len(CELLS[cell].states)
    h_rest, last = layer(x[:, 2:], state=first)
    assert_close(h_rest, h[:, 2:])
    for end, state in zip(last, states, strict=True):
        assert_close(end, state)


@every_cell
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_unequal_blocks_equal_separate_layers(cell, outputs):
    """Block k of the layer is a layer of one block with its rows of every parameter."""
    sizes, (x, lengths) = [2, 1, 3, 1, 2], batch()
    layer = make(cell=cell, d_s=sizes, K=5)
    state = tuple(
        torch.linspace(-1, 1, 9, dtype=torch.float64) for _ in CELLS[cell].states
    )
    h, last = layer(x, lengths, state, outputs)
    start = 0
    for size, block in zip(sizes, layer.recurrent_blocks(), strict=True):
        units = slice(start, start + size)
        start += size
        alone = make(cell=cell, d_s=size, K=1)
        with torch.no_grad():
            alone.weight_h.copy_(block[:, None])
            alone.weight_x.copy_(layer.weight_x[:, units])
            alone.bias.copy_(layer.bias[:, units])
            for name in CELLS[cell].extra_bias:
                getattr(alone, name).copy_(getattr(layer, name)[units])
        h_k, last_k = alone(x, lengths, tuple(s[units] for s in state), outputs)
        if outputs == "last":
            assert h is None
        else:
            assert_close(h[..., units], h_k)
        for end, end_k in zip(last, last_k, strict=True):
            assert_close(end[..., units], end_k)


@every_cell
def test_every_parameter_of_unequal_blocks_learns(cell):
    layer, (x, lengths) = make(cell=cell, d_s=[2, 1, 3, 1]), batch()
    layer(x, lengths)[0].sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.any(), name


def test_equal_sizes_in_a_list_are_one_size():
    x, _ = batch()
    one, many = make(d_s=2, K=3), make(d_s=[2, 2, 2], K=3)
    assert torch.equal(one(x)[0], many(x)[0])
    assert torch.equal(many.recurrent_blocks(), one.recurrent_blocks())


# -- errors ----------------------------------------------------------------------------


BAD = [
    ({"K": 0}, "K must be a positive integer; got 0"),
    ({"K": 2.5}, r"K must be a positive integer; got 2\.5"),
    ({"K": True}, "K must be a positive integer; got True"),
    ({"d_s": 0}, "d_s must be a positive integer; got 0"),
    ({"d_s": "2"}, "d_s must be a positive integer; got '2'"),
    ({"d_s": [1, 2, 3]}, "d_s has 3 sizes; K=4 blocks"),
    ({"d_s": [1, 2, -3, 1]}, r"d_s\[2\] must be a positive integer; got -3"),
    ({"d_in": 0}, "d_in must be a positive integer; got 0"),
    ({"cell": "elman"}, "cell must be one of 'rnn', 'lstm', 'gru', 'lru'; got 'elman'"),
    ({"activation": "gelu"}, "activation must be one of 'tanh'.*; got 'gelu'"),
    ({"cell": "gru", "reset_after": "yes"}, "reset_after must be one of True, False"),
    ({"cell": "gru", "reset_after": 1}, "reset_after must be one of True, False"),
    ({"cell": "gru", "activation": "swish"}, "activation must be one of 'tanh'"),
    ({"cell": "lstm", "candidate": "high"}, "candidate must be one of 'tanh', 'high"),
    ({"cell": "rnn", "reset_after": "no"}, "reset_after must be one of True, False"),
    ({"reverse": "no"}, "reverse must be one of True, False; got 'no'"),
    ({"reverse": 0}, "reverse must be one of True, False; got 0"),
    (
        {"cell": "lstm", "forget_bias": float("nan")},
        "forget_bias must be a finite.*nan",
    ),
    (
        {"cell": "lstm", "forget_bias": float("inf")},
        "forget_bias must be a finite.*inf",
    ),
    ({"cell": "lstm", "forget_bias": "a"}, "forget_bias must be a finite.*got 'a'"),
    (
        {"cell": "lru", "candidate": "highway"},
        "d_in=3, d=8. Use candidate='tanh'",
    ),
    (
        {"cell": "lru", "candidate": "highway", "d_s": [1, 2, 2, 3], "d_in": 8},
        r"equal size; got d_s=\[1, 2, 2, 3\]. Use candidate='tanh'",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


BAD_TYPES = [
    ({"dtype": "float32"}, r"dtype must be torch\.float32 or .*; got 'float32'"),
    ({"dtype": torch.float16}, r"dtype must be .*; got torch\.float16"),
    (
        {"swish": True},
        "unknown argument 'swish'; .* activation, candidate, reset_after$",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_TYPES)
def test_argument_of_a_bad_type_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        make(**options)


@pytest.mark.parametrize("generator", [0, 3, "3"])
def test_a_seed_is_no_generator(generator):
    with pytest.raises(TypeError, match=f"torch.Generator.*; got {generator!r}"):
        BlockRecurrentCell(3, generator=generator)


@every_cell
def test_options_of_other_cells_change_nothing(cell):
    others = {
        name: values[-1]
        for spec in CELLS.values()
        for name, values in spec.options.items()
        if name not in CELLS[cell].options
    }
    x, _ = batch()
    assert torch.equal(make(cell=cell, **others)(x)[0], make(cell=cell)(x)[0])


@pytest.mark.parametrize("state", [(), torch.zeros(2, 8), (torch.zeros(8),) * 3])
def test_number_of_states_is_named(state):
    x, _ = batch()
    with pytest.raises(ValueError, match=r"2 tensors \(h, c\) for cell='lstm'"):
        make(cell="lstm")(x, state=state)


def test_width_of_input_is_named():
    x, _ = batch(d_in=5)
    with pytest.raises(ValueError, match="x has d_in=5, weight_x has d_in=3"):
        make(3)(x)
