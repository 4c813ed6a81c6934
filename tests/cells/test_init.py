"""What each initialisation promises."""

import math

import numpy as np
import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS, INITS, BlockRecurrentCell

GATED = [cell for cell, spec in CELLS.items() if spec.chrono]


def make(cell="rnn", seed=0, **options):
    options = {"dtype": torch.float64, "d_s": 4, "K": 8} | options
    generator = torch.Generator().manual_seed(seed)
    return BlockRecurrentCell(3, cell=cell, **options, generator=generator)


def rows(cell, **options):
    """The biases of a layer by the letter of their gate."""
    bias = make(cell, **options).bias.detach()
    return dict(zip(CELLS[cell].biased, bias, strict=True))


def damping(pair):
    """Gamma of a block gamma * Rot(theta), after checking that it is one."""
    a, b, c, d = pair.flatten(-2).unbind(-1)
    assert torch.equal(a, d)
    assert torch.equal(b, -c)
    assert (c >= 0).all()  # theta in (0, pi]
    return torch.hypot(a, c)


def assert_damped(gamma):
    assert gamma.min() >= 0.8
    assert gamma.max() < 1.0
    assert gamma.max() - gamma.min() > 0.05


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("init", [init for init in INITS if init != "chrono"])
def test_input_weights_and_biases_are_those_of_the_dense_layer(cell, init):
    layer, bound = make(cell, init=init), 1.0 / math.sqrt(32)
    names = [name for name, _ in layer.named_parameters() if name != "weight_h"]
    for name in names:
        values = getattr(layer, name).abs()
        assert 0.9 * bound < values.max() <= bound
        assert values.min() < 0.2 * bound


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("d_s", [1, 4, 32])
def test_uniform_blocks_have_their_own_bound(cell, d_s):
    values = make(cell, d_s=d_s, K=500).weight_h
    bound = 1.0 / math.sqrt(d_s)
    assert 0.98 * bound < values.max() <= bound
    assert -bound <= values.min() < -0.98 * bound
    assert values.mean().abs() < 0.2 * bound


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("d_s", [1, 2, 5])
def test_orthogonal_blocks_differ_and_are_orthogonal(cell, d_s):
    blocks = make(cell, d_s=d_s, init="orthogonal").weight_h.detach()
    assert_close(blocks @ blocks.mT, torch.eye(d_s).double().expand_as(blocks))
    if d_s > 1:
        assert not torch.allclose(blocks[:, 0], blocks[:, 1])
    determinants = torch.linalg.det(make(d_s=d_s, K=200, init="orthogonal").weight_h)
    assert 0.3 < (determinants > 0).double().mean() < 0.7


@pytest.mark.parametrize("cell", CELLS)
def test_identity_blocks(cell):
    blocks = make(cell, init="identity").weight_h
    assert torch.equal(blocks, torch.eye(4).double().expand_as(blocks))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("d_s", [1, 2, 3, 6])
def test_rotation_blocks(cell, d_s):
    blocks = make(cell, d_s=d_s, K=40, init="rotation").weight_h.detach()
    pair = torch.arange(d_s) // 2
    assert not blocks[..., pair[:, None] != pair].any()
    for j in range(0, d_s - 1, 2):
        assert_damped(damping(blocks[..., j : j + 2, j : j + 2]))
    if d_s % 2:
        real = blocks[..., -1, -1]
        assert_damped(real.abs())
        assert real.min() < 0 < real.max()


@pytest.mark.parametrize("d_s", [4, 7, 8])
def test_jordan_blocks(d_s):
    blocks = make("lstm", d_s=d_s, K=40, init="jordan").weight_h.detach()
    fours = torch.stack(
        [blocks[..., j : j + 4, j : j + 4] for j in range(0, d_s - 3, 4)], dim=2
    ).flatten(1, 2)
    real, pairs = fours[:, 0::2], fours[:, 1::2]

    lam = real[..., 0, 0]
    assert_damped(lam.abs())
    ones = torch.diag_embed(torch.ones(3, dtype=torch.float64), offset=1)
    eye = torch.eye(4, dtype=torch.float64)
    assert torch.equal(real, lam[..., None, None] * eye + ones)

    assert_damped(damping(pairs[..., :2, :2]))
    assert torch.equal(pairs[..., :2, :2], pairs[..., 2:, 2:])
    assert torch.equal(pairs[..., :2, 2:], eye[:2, :2].expand_as(pairs[..., :2, 2:]))
    assert not pairs[..., 2:, :2].any()

    rest = d_s - d_s % 4
    if rest < d_s:
        assert_damped(damping(blocks[..., rest : rest + 2, rest : rest + 2]))
        assert_damped(blocks[..., -1, -1].abs())
        assert not blocks[..., rest:, :rest].any()


def test_jordan_needs_four_units():
    with pytest.raises(ValueError, match=r"size 4 or more; got d_s=3"):
        make(d_s=3, init="jordan")


@pytest.mark.parametrize("cell", GATED)
def test_chrono_spreads_forgetting_times_over_the_sequence(cell):
    """A gate with bias b and no input keeps sigmoid(b) = 1 - 1/T; T covers 2..t_max."""
    biases = rows(cell, d_s=2, K=1000, init="chrono", t_max=50)
    for gate, bias in biases.items():
        sign = CELLS[cell].chrono.get(gate, 0)
        if sign == 0:
            assert not bias.any()
            continue
        times = 1.0 / (1.0 - torch.sigmoid(sign * bias))
        assert 2.0 <= times.min() < 2.5
        assert 49.5 < times.max() <= 50.0
        assert times.mean() == pytest.approx(26.0, abs=1.0)


@pytest.mark.parametrize("cell", GATED)
def test_chrono_makes_memories_that_fade_with_these_times(cell):
    """Without weights one step leaves 1 - 1/T of the state."""
    layer = make(cell, d_s=2, K=1000, init="chrono", t_max=50)
    with torch.no_grad():
        layer.weight_x.zero_()
        layer.weight_h.zero_()
    x, n_states = torch.zeros(1, 1, 3).double(), len(CELLS[cell].states)
    _, states = layer(x, state=(torch.ones(2000).double(),) * n_states)
    kept = states[-1]  # lstm's memory is c
    assert 0.5 <= kept.min() < 0.6
    assert 0.979 < kept.max() <= 0.98


def test_chrono_opens_one_gate_as_it_closes_the_other():
    biases = rows("lstm", init="chrono", t_max=20)
    assert torch.equal(biases["i"], -biases["f"])


def test_chrono_leaves_no_other_bias_and_the_blocks_alone():
    layer = make("gru", init="chrono", t_max=20)
    assert not layer.bias_q.any()
    assert torch.equal(layer.weight_h, make("gru").weight_h)


def test_chrono_is_for_gates():
    with pytest.raises(ValueError, match="init='chrono' sets the biases of gates"):
        make("rnn", init="chrono", t_max=20)


@pytest.mark.parametrize("t_max", [None, 2, -5])
def test_chrono_needs_the_longest_sequence(t_max):
    with pytest.raises(ValueError, match=f"above 2; got t_max={t_max}"):
        make("gru", init="chrono", t_max=t_max)


def test_forget_bias():
    given, free = rows("lstm", forget_bias=1.0), rows("lstm")
    assert (given["f"] == 1.0).all()
    for gate in "igo":
        assert torch.equal(given[gate], free[gate])


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell != "lstm"])
def test_forget_bias_is_for_lstm(cell):
    with pytest.raises(
        ValueError, match=f"forget_bias is for 'lstm'; got cell='{cell}'"
    ):
        make(cell, forget_bias=1.0)


def test_forget_bias_and_chrono_contradict_each_other():
    with pytest.raises(ValueError, match="drop forget_bias"):
        make("lstm", init="chrono", t_max=20, forget_bias=1.0)


def test_a_callable_gives_the_blocks():
    def halves(shape, generator):
        return torch.full(shape, 0.5)

    assert (make("gru", init=halves).weight_h == 0.5).all()
    with pytest.raises(ValueError, match=r"init returned shape \(2,\).*\(3, 8, 4, 4\)"):
        make("gru", init=lambda shape, generator: torch.zeros(2))


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda shape: None, TypeError, "init returned <class 'NoneType'>"),
        (lambda shape: "eye", TypeError, "init returned <class 'str'>"),
        (
            lambda shape: torch.zeros(shape) * 1j,
            TypeError,
            r"init returned torch\.comp",
        ),
        (lambda shape: torch.full(shape, math.nan), ValueError, "init returned NaN or"),
        (lambda shape: torch.full(shape, math.inf), ValueError, "init returned NaN or"),
    ],
)
def test_a_callable_gives_finite_real_blocks(returned, error, message):
    with pytest.raises(error, match=message):
        make(init=lambda shape, generator: returned(shape))


def test_a_callable_may_return_an_array_or_nested_lists():
    def halves(shape, generator):
        return np.full(shape, 0.5)

    for init in (halves, lambda *given: halves(*given).tolist()):
        assert (make(init=init).weight_h == 0.5).all()


def test_unknown_init_is_named():
    with pytest.raises(ValueError, match="'chrono' or a callable; got 'xavier'"):
        make(init="xavier")


@pytest.mark.parametrize("init", INITS)
def test_a_seed_gives_one_model_in_both_dtypes(init):
    options = {"init": init, "t_max": 20}
    one, same, other = (make("gru", seed=seed, **options) for seed in (1, 1, 2))
    narrow = make("gru", seed=1, dtype=torch.float32, **options)
    for name, value in one.named_parameters():
        assert torch.equal(value, getattr(same, name))
        assert torch.equal(value.float(), getattr(narrow, name))
    assert not torch.equal(one.weight_x, other.weight_x)


def test_without_a_generator_no_two_models_are_alike():
    one, other = BlockRecurrentCell(3), BlockRecurrentCell(3)
    assert not torch.equal(one.weight_x, other.weight_x)


@pytest.mark.parametrize("init", INITS)
def test_global_generator_is_left_alone(init):
    before = torch.get_rng_state()
    BlockRecurrentCell(3, cell="gru", d_s=4, K=2, init=init, t_max=20)
    assert torch.equal(torch.get_rng_state(), before)
