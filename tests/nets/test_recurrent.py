"""A stack of layers with its read-out and head."""

import copy
import pickle

import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS
from skpararnn.nets import RecurrentNet
from skpararnn.nets._recurrent import READOUTS

D_IN, D_OUT = 3, 2
LENGTHS = torch.tensor([6, 1, 3, 5])

every_cell = pytest.mark.parametrize("cell", CELLS)
every_readout = pytest.mark.parametrize("readout", READOUTS)
directions = pytest.mark.parametrize("bidirectional", [False, True])


def make(seed=0, **options):
    options = {"d_s": 2, "K": 4, "candidate": "tanh", "dtype": torch.float64} | options
    generator = torch.Generator().manual_seed(seed)
    return RecurrentNet(D_IN, D_OUT, **options, generator=generator)


def inputs(T=6):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, T, D_IN, generator=generator, dtype=torch.float64)


# -- layers ----------------------------------------------------------------------------


TWINS = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


def torch_twin(net, cell):
    """The stack of torch.nn with the weights of a net of dense layers."""
    n_layers, bidirectional = len(net.layers), len(net.layers[0]) == 2
    with torch.random.fork_rng(devices=[]):
        twin = TWINS[cell](
            D_IN,
            net.hidden_size,
            num_layers=n_layers,
            bidirectional=bidirectional,
            batch_first=True,
        )
    values = {}
    for i, layer in enumerate(net.layers):
        for ours, suffix in zip(layer, ["", "_reverse"], strict=False):
            second = torch.zeros_like(ours.bias)
            if hasattr(ours, "bias_q"):
                second[2] = ours.bias_q
            values[f"weight_ih_l{i}{suffix}"] = ours.weight_x.flatten(0, 1)
            values[f"weight_hh_l{i}{suffix}"] = ours.weight_h.flatten(0, 2)
            values[f"bias_ih_l{i}{suffix}"] = ours.bias.flatten()
            values[f"bias_hh_l{i}{suffix}"] = second.flatten()
    twin.double().load_state_dict(values)
    return twin


@pytest.mark.parametrize("cell", TWINS)
@pytest.mark.parametrize("n_layers", [1, 2])
@directions
def test_dense_layers_equal_torch(cell, n_layers, bidirectional):
    net = make(cell=cell, d_s=5, K=1, n_layers=n_layers, bidirectional=bidirectional)
    packed = torch.nn.utils.rnn.pack_padded_sequence(
        inputs(), LENGTHS, batch_first=True, enforce_sorted=False
    )
    out, last = torch_twin(net, cell)(packed)
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    h_last = last[0] if isinstance(last, tuple) else last
    assert_close(net.hidden_states(inputs(), LENGTHS), out)
    top = torch.cat(list(h_last[-2:] if bidirectional else h_last[-1:]), dim=-1)
    assert_close(net(inputs(), LENGTHS), net.head(top))


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_highway_starts_at_the_second_layer(n_layers):
    net = make(cell="lru", candidate="highway", n_layers=n_layers)
    candidates = [layer[0].options["candidate"] for layer in net.layers]
    assert candidates == ["tanh", "highway", "highway"][:n_layers]
    states = net.hidden_states(10.0 * inputs())  # averages of candidates in (-1, 1)
    assert states.abs().max() < 1.0


def test_plain_stack_has_tanh_candidates():
    net = make(cell="lru", candidate="tanh", n_layers=2)
    assert [layer[0].options["candidate"] for layer in net.layers] == ["tanh", "tanh"]


@every_cell
@directions
def test_number_of_parameters(cell, bidirectional):
    net = make(cell=cell, n_layers=3, bidirectional=bidirectional)
    spec, d = CELLS[cell], 8
    n = 2 if bidirectional else 1
    G, R, B = len(spec.gates), len(spec.recurrent), len(spec.biased)
    rest = R * d * 2 + (B + len(spec.extra_bias)) * d
    layers = n * (G * d * D_IN + rest) + 2 * n * (G * d * n * d + rest)
    assert net.n_parameters() == layers + n * d * D_OUT + D_OUT


@directions
def test_recurrent_blocks_go_from_below_and_forward_first(bidirectional):
    net = make(cell="gru", n_layers=2, bidirectional=bidirectional)
    blocks = net.recurrent_blocks()
    cells = [cell for layer in net.layers for cell in layer]
    assert len(blocks) == (4 if bidirectional else 2)
    assert [cell.reverse for cell in cells] == [False, True, False, True][
        :: 1 if bidirectional else 2
    ]
    for block, cell in zip(blocks, cells, strict=True):
        assert block is cell.weight_h


def test_recurrent_blocks_of_unequal_sizes_are_lists():
    net = make(cell="lstm", d_s=[1, 3, 2], K=3, n_layers=2)
    assert net.hidden_size == 6
    for layer in net.recurrent_blocks():
        assert [tuple(block.shape) for block in layer] == [
            (4, 1, 1),
            (4, 3, 3),
            (4, 2, 2),
        ]


def test_options_reach_the_cells():
    net = make(cell="gru", init="chrono", t_max=9, reset_after=False)
    (cell,) = net.layers[0]
    assert cell.options == {"reset_after": False}
    assert cell.bias[1].exp().max() <= 8.0
    (cell,) = make(cell="lstm", forget_bias=1.5).layers[0]
    assert (cell.bias[1] == 1.5).all()
    (cell,) = make(activation="relu", init="identity").layers[0]
    assert cell.options == {"activation": "relu"}
    assert (cell.weight_h[0, 0] == torch.eye(2)).all()


# -- read-outs -------------------------------------------------------------------------


@every_cell
@every_readout
def test_readout(cell, readout):
    net = make(cell=cell, readout=readout, n_layers=2)
    h = net.hidden_states(inputs(), LENGTHS)
    last = h[torch.arange(4), LENGTHS - 1]
    mean = h.sum(dim=1) / LENGTHS[:, None]
    read = {
        "last": last,
        "mean": mean,
        "last+mean": torch.cat([last, mean], dim=-1),
        "all": h,
    }[readout]
    expected = net.head(read)
    if readout == "all":
        expected = expected * (torch.arange(6) < LENGTHS[:, None])[:, :, None]
    assert_close(net(inputs(), LENGTHS), expected)


@every_readout
def test_bidirectional_readout(readout):
    net = make(readout=readout, bidirectional=True)
    h = net.hidden_states(inputs(), LENGTHS)
    assert h.shape == (4, 6, 16)
    forward = h[torch.arange(4), LENGTHS - 1, :8]
    last = torch.cat([forward, h[:, 0, 8:]], dim=-1)
    mean = h.sum(dim=1) / LENGTHS[:, None]
    read = {
        "last": last,
        "mean": mean,
        "last+mean": torch.cat([last, mean], dim=-1),
        "all": h,
    }[readout]
    y = net(inputs(), LENGTHS)
    if readout == "all":
        assert not y[1, 1:].any()
        y, read = y[0], read[0]
    assert_close(y, net.head(read))


@every_cell
@every_readout
@directions
def test_padding_changes_nothing(cell, readout, bidirectional):
    net = make(cell=cell, readout=readout, bidirectional=bidirectional, n_layers=2)
    x = inputs()
    padded = torch.full((4, 9, D_IN), float("nan"), dtype=torch.float64)
    padded[:, :6] = x
    full = torch.tensor([6] * 4)
    y, y_padded = net(x), net(padded, full)
    if readout == "all":
        assert not y_padded[:, 6:].any()
        y_padded = y_padded[:, :6]
    assert_close(y_padded, y)

    for n, length in enumerate(LENGTHS):
        alone = net(x[n : n + 1, :length])[0]
        among = net(x, LENGTHS)[n]
        assert_close(among[:length] if readout == "all" else among, alone)

    net(padded, full).sum().backward()
    assert all(p.grad.isfinite().all() for p in net.parameters())


@every_cell
def test_lengths_may_be_a_list(cell):
    net = make(cell=cell, readout="all")
    assert torch.equal(net(inputs(), LENGTHS.tolist()), net(inputs(), LENGTHS))


@every_cell
def test_an_answer_depends_on_no_later_step(cell):
    net = make(cell=cell, readout="all", n_layers=2)
    x = inputs()
    x[:, 4:] += 1.0
    assert_close(net(x)[:, :4], net(inputs())[:, :4])
    assert not torch.allclose(net(x)[:, 4], net(inputs())[:, 4])


@every_cell
@every_readout
@directions
def test_every_parameter_learns(cell, readout, bidirectional):
    net = make(
        cell=cell,
        readout=readout,
        bidirectional=bidirectional,
        n_layers=2,
        aggregation="fc",
        dropout=0.2,
    )
    net(inputs(), LENGTHS).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad.any(), name


# -- dropout ---------------------------------------------------------------------------


def test_dropout_acts_between_layers_in_training_alone():
    net, plain = make(n_layers=2, dropout=0.5), make(n_layers=2)
    assert not torch.allclose(net(inputs()), plain(inputs()))
    assert torch.equal(net.eval()(inputs()), plain(inputs()))
    one = make(n_layers=1, dropout=0.5)
    assert torch.equal(one(inputs()), one.eval()(inputs()))


def test_dropout_acts_on_the_outputs_of_the_layers_below():
    net, plain = make(n_layers=2, dropout=0.5), make(n_layers=2)
    (below,), (top,) = plain.layers
    net.dropout.reseed(7)
    mask = copy.deepcopy(net.dropout)(torch.ones(4, 6, 8, dtype=torch.float64))
    h, _ = top(below(inputs())[0] * mask)
    assert_close(net.hidden_states(inputs()), h)


def test_dropout_comes_from_the_seed_of_the_net():
    x = inputs()
    one, same, other = (make(seed, n_layers=2, dropout=0.5) for seed in (0, 0, 1))
    other.load_state_dict(one.state_dict())
    first = [one(x) for _ in range(3)]
    assert not torch.equal(first[0], first[1])
    assert all(torch.equal(y, same(x)) for y in first)
    assert not torch.equal(first[0], other(x))


# -- the module ------------------------------------------------------------------------


@every_cell
def test_a_seed_gives_one_net_in_both_dtypes(cell):
    options = {"cell": cell, "n_layers": 2, "aggregation": "ffn"}
    one, same, other = (make(seed, **options) for seed in (1, 1, 2))
    narrow = make(1, dtype=torch.float32, **options).state_dict()
    for name, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[name])
        assert torch.equal(value.float(), narrow[name])
        assert not torch.equal(value, value.float().double()), "rounded on the way"
    assert not torch.equal(one.head.weight, other.head.weight)


def test_global_generator_is_left_alone():
    before = torch.get_rng_state()
    net = RecurrentNet(3, 2, cell="gru", n_layers=2, dropout=0.5, aggregation="ffn")
    net(torch.zeros(4, 5, 3))
    assert torch.equal(torch.get_rng_state(), before)


@every_cell
def test_copies_and_pickles_are_the_same_net(cell):
    net = make(cell=cell, n_layers=2, dropout=0.5)
    net(inputs())
    copies = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    y = net(inputs())
    for other in copies:
        assert torch.equal(other(inputs()), y)


def test_state_dict_holds_the_parameters_and_nothing_else():
    net = make(cell="gru", n_layers=2, dropout=0.5, aggregation="fc", d_s=[1, 2, 2, 3])
    assert list(net.state_dict()) == [name for name, _ in net.named_parameters()]


BAD = [
    ({"n_layers": 0}, "n_layers must be a positive integer; got 0"),
    ({"dropout": 1.0}, r"dropout must be a number in \[0, 1\); got 1\.0"),
    ({"dropout": "0.5"}, "dropout must be a number"),
    ({"readout": "max"}, "readout must be one of 'last', 'mean', 'last.mean', 'all'"),
    ({"cell": "elman"}, "cell must be one of 'rnn', 'lstm', 'gru', 'lru'"),
    ({"candidate": "relu"}, "candidate must be one of 'tanh', 'highway'"),
    ({"K": 0}, "K must be a positive integer; got 0"),
    ({"bidirectional": "no"}, "bidirectional must be one of True, False; got 'no'"),
    ({"bidirectional": 1}, "bidirectional must be one of True, False; got 1"),
    ({"cell": "gru", "reset_after": "no"}, "reset_after must be one of True, False"),
    ({"cell": "gru", "activation": "swish"}, "activation must be one of 'tanh', 're"),
    ({"cell": "lstm", "forget_bias": float("nan")}, "forget_bias must be a finite"),
]

HIGHWAY = {"cell": "lru", "candidate": "highway", "n_layers": 2}


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float32"}, "dtype must be torch.float32 or .*; got 'float32'"),
        ({"generator": 3}, "generator must be a torch.Generator.*; got 3"),
        ({"generator": 0}, "generator must be a torch.Generator.*; got 0"),
        ({"swish": 1}, "unknown argument 'swish'"),
    ],
)
def test_argument_of_a_bad_type_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        RecurrentNet(D_IN, D_OUT, **options)


def test_width_of_the_output_is_checked():
    with pytest.raises(ValueError, match="d_out must be a positive integer; got 0"):
        RecurrentNet(3, 0)


@pytest.mark.parametrize("options", [{"bidirectional": True}, {"d_s": [1, 2, 3, 2]}])
def test_highway_names_the_way_out(options):
    with pytest.raises(ValueError, match="Use candidate='tanh'"):
        make(**HIGHWAY | options)
    make(**HIGHWAY | options | {"candidate": "tanh"})
    make(**HIGHWAY | options | {"n_layers": 1})
    make(**HIGHWAY | options | {"cell": "gru"})
