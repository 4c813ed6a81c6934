"""Linear layers and dropout that leave the global generator alone."""

import copy
import math
import pickle

import pytest
import torch

from skpararnn.nets._modules import Dropout, linear


def test_linear_has_torchs_bounds_and_the_generators_values():
    one, same, other = (
        linear(9, 500, generator=torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    )
    for name in ("weight", "bias"):
        values = getattr(one, name)
        assert torch.equal(values, getattr(same, name))
        assert not torch.equal(values, getattr(other, name))
        assert 0.98 / 3 < values.abs().max() <= 1 / 3


def test_linear_without_bias():
    generator = torch.Generator().manual_seed(0)
    assert linear(3, 2, bias=False, generator=generator).bias is None


def masks(dropout, n=3):
    return [dropout(torch.ones(40, 50)) for _ in range(n)]


def test_dropout_is_off_outside_training_and_at_zero():
    x = torch.ones(4, 5)
    assert Dropout(0.5, seed=0).eval()(x) is x
    assert Dropout(0.0, seed=0).train()(x) is x


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_a_share_of_p_and_keeps_the_mean(p):
    y = Dropout(p, seed=0)(torch.ones(300, 300))
    assert set(y.unique().tolist()) == {0.0, torch.tensor(1.0).div(1.0 - p).item()}
    assert (y == 0).double().mean().item() == pytest.approx(p, abs=0.01)
    assert y.mean().item() == pytest.approx(1.0, abs=5 * math.sqrt(p / (1 - p)) / 300)


def test_dropout_is_drawn_anew_and_repeats_from_its_seed():
    dropout = Dropout(0.5, seed=3)
    first = masks(dropout)
    assert not torch.equal(first[0], first[1])
    dropout.reseed(3)
    for mask, again, other in zip(
        first, masks(dropout), masks(Dropout(0.5, seed=4)), strict=True
    ):
        assert torch.equal(mask, again)
        assert not torch.equal(mask, other)


def test_dropout_does_not_depend_on_strides():
    x = torch.ones(40, 50)
    assert torch.equal(Dropout(0.5, seed=3)(x), Dropout(0.5, seed=3)(x.T.clone().T))


def test_dropout_passes_the_gradient_of_what_it_keeps():
    x = torch.ones(40, 50, requires_grad=True)
    y = Dropout(0.5, seed=0)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_copies_and_pickles_of_dropout_go_on_where_it_is():
    dropout = Dropout(0.5, seed=0)
    masks(dropout)
    copies = copy.deepcopy(dropout), pickle.loads(pickle.dumps(dropout))
    expected = masks(dropout)
    for other in copies:
        for mask, again in zip(expected, masks(other), strict=True):
            assert torch.equal(mask, again)


def test_dropout_is_not_part_of_the_state():
    assert Dropout(0.5, seed=0).state_dict() == {}
