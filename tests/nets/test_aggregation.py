"""What stands between read-out and head."""

import pytest
import torch
from tolerances import assert_close

from skpararnn.nets import RecurrentNet
from skpararnn.nets._aggregation import AGGREGATIONS

D_IN, K, D_S = 3, 4, 2
D = K * D_S


def make(aggregation, **options):
    return RecurrentNet(
        D_IN,
        2,
        d_s=D_S,
        K=K,
        aggregation=aggregation,
        dtype=torch.float64,
        generator=torch.Generator().manual_seed(0),
        **options,
    )


def inputs():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(5, 6, D_IN, generator=generator, dtype=torch.float64)


def read_out(net):
    return net.hidden_states(inputs())[:, -1]


SIZES = {  # parameters beyond those of the net without aggregation, head included
    "linear": lambda d_agg, d_ff: D * d_agg,
    "fc": lambda d_agg, d_ff: D * d_agg + d_agg,
    "ffn": lambda d_agg, d_ff: D * d_ff + d_ff + d_ff * d_agg + d_agg,
}


def test_every_aggregation_is_counted():
    assert {None, *SIZES} == set(AGGREGATIONS)


@pytest.mark.parametrize("aggregation", SIZES)
@pytest.mark.parametrize("d_agg", [None, 5])
def test_number_of_parameters(aggregation, d_agg):
    width = D if d_agg is None else d_agg
    plain, head = make(None).n_parameters(), 2 * (width - D)
    net = make(aggregation, d_agg=d_agg)
    assert net.n_parameters() == plain + head + SIZES[aggregation](width, 4 * D)
    assert net(inputs()).shape == (5, 2)


def test_inner_width_of_ffn():
    assert make("ffn", d_ff=7).aggregation.inner.out_features == 7


def test_none_is_the_head_alone():
    net = make(None)
    assert_close(net(inputs()), net.head(read_out(net)))


def test_linear_is_a_sum_over_blocks():
    net = make("linear")
    weight = net.head.weight @ net.aggregation.weight_f
    blocks = read_out(net).unflatten(1, (K, D_S)), weight.unflatten(1, (K, D_S))
    terms = torch.einsum("nks,oks->nko", *blocks)
    assert_close(net(inputs()), terms.sum(dim=1) + net.head.bias)


def test_fc_has_a_bias_and_a_relu():
    net = make("fc")
    a = net.aggregation
    inner = torch.relu(read_out(net) @ a.weight_f.T + a.bias_f)
    assert_close(net(inputs()), net.head(inner))


def test_ffn_has_two_layers():
    net = make("ffn")
    a = net.aggregation
    assert_close(net(inputs()), net.head(a.outer(torch.relu(a.inner(read_out(net))))))


@pytest.mark.parametrize("aggregation", SIZES)
def test_every_step_is_aggregated_alike(aggregation):
    every, last = make(aggregation, readout="all"), make(aggregation)
    last.load_state_dict(every.state_dict())
    assert_close(every(inputs())[:, 3], last(inputs()[:, :4]))


@pytest.mark.parametrize("aggregation", SIZES)
def test_default_width_is_that_of_the_read_out(aggregation):
    net = make(aggregation, readout="last+mean", bidirectional=True)
    assert net.head.in_features == 4 * D


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregation": "sum"}, "aggregation must be one of None, 'linear', 'fc'"),
        ({"aggregation": None, "d_agg": 4}, "d_agg=4 needs an aggregation"),
        (
            {"aggregation": "fc", "d_ff": 4},
            "d_ff=4 needs aggregation='ffn'; got",
        ),
        ({"aggregation": "fc", "d_agg": 0}, "d_agg must be a positive integer; got 0"),
        ({"aggregation": "ffn", "d_ff": -1}, "d_ff must be a positive integer; got -1"),
    ],
)
def test_bad_argument_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
