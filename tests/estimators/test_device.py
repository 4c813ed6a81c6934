"""Devices by name, with no card, with one that is made of the CPU, after a fork."""

import pickle
import subprocess
import sys

import pytest
import torch
from cases import answers, sequences, small, target
from numpy.testing import assert_array_equal

from skpararnn import ParaRNNClassifier, ParaRNNRegressor
from skpararnn.estimators import _device

X = sequences()
y = X[:, 0, 0]
no_card = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


# ----------------------------------------------------------------------- without a card


@no_card
def test_auto_takes_the_cpu_without_a_card():
    assert small(ParaRNNRegressor, device="auto").fit(X, y).device_ == "cpu"


@no_card
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_card_is_an_error_in_fit(device):
    model = small(ParaRNNRegressor, device=device)
    with pytest.raises(ValueError, match=f"device='{device}'.*no CUDA device"):
        model.fit(X, y)
    assert not hasattr(model, "n_iter_")


@no_card
def test_a_model_fitted_on_a_card_predicts_without_one():
    model = small(ParaRNNRegressor, device="auto").fit(X, y)
    expected = model.predict(X)
    model.device_ = "cuda"  # as a pickle from a machine with a card has it
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), expected)
    again.device = "cuda"
    with pytest.warns(UserWarning, match=r"device='cuda'.*predicts on the CPU") as seen:
        assert_array_equal(again.predict(X), expected)
    assert seen[0].filename == __file__


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "meta", "cuda:-1", ""])
def test_unknown_devices_are_named(device):
    with pytest.raises(ValueError, match=f"device must be .*got '{device}'"):
        small(ParaRNNRegressor, device=device).fit(X, y)


def test_the_cpu_may_be_numbered():
    model = small(ParaRNNRegressor, device="cpu:0").fit(X, y)
    assert model.device_ == "cpu"
    model.predict(X)


# -------------------------------------------------------------------- a card or several


def test_auto_takes_the_card(card):
    assert small(ParaRNNRegressor, device="auto").fit(X, y).device_ == "cuda"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "cuda:1"])
def test_cards_are_taken_by_name(card, device):
    card.n = 2
    model = small(ParaRNNRegressor, device=device).fit(X, y)
    assert model.device_ == device
    model.predict(X)
    assert card.used == [device, device]  # the fit and the prediction


def test_a_number_that_no_card_has_is_named(card):
    card.n = 2
    with pytest.raises(ValueError, match=r"device='cuda:2'.*the last .* is cuda:1"):
        small(ParaRNNRegressor, device="cuda:2").fit(X, y)


def test_a_model_of_a_second_card_predicts_where_there_is_one(card):
    card.n = 2
    model = small(ParaRNNRegressor, device="cuda:1").fit(X, y)
    expected = model.predict(X)
    card.n = 1
    with pytest.warns(UserWarning, match=r"is cuda:0: it predicts on the CPU"):
        assert_array_equal(model.predict(X), expected)


def test_the_cpu_can_be_chosen_after_the_fit(card):
    model = small(ParaRNNRegressor, device="auto").fit(X, y)
    card.available = False
    expected = model.predict(X)
    card.available = True
    card.used.clear()
    assert_array_equal(model.set_params(device="cpu").predict(X), expected)
    assert card.used == []


def test_predictions_of_a_card_leave_the_model_on_the_cpu(card, monkeypatch):
    model = small(ParaRNNRegressor, device="cuda").fit(X, y)
    module = model.net_.module_
    moved = []
    monkeypatch.setattr(
        torch.nn.Module, "to", lambda self, device: moved.append(self) or self
    )
    model.predict(X)
    (copy,) = moved
    assert copy is not module
    assert model.net_.module_ is module


# ------------------------------------------------------------------------- after a fork


@pytest.mark.parametrize("device", ["auto", "cuda"])
def test_a_forked_process_is_told_what_to_do(card, device):
    model = small(ParaRNNRegressor, device=device).fit(X, y)
    expected = model.predict(X)
    card.forked = True
    remedies = rf"device='{device}'.*forked.*loky.*'spawn'.*threads.*device='cpu'"
    with pytest.raises(RuntimeError, match=remedies):
        small(ParaRNNRegressor, device=device).fit(X, y)
    with pytest.raises(RuntimeError, match="forked from one that had used CUDA"):
        model.predict(X)
    assert_array_equal(model.set_params(device="cpu").predict(X), expected)
    assert model.fit(X, y).device_ == "cpu"


def test_a_fork_without_a_card_does_no_harm(card):
    card.forked, card.available = True, False
    assert small(ParaRNNRegressor, device="auto").fit(X, y).device_ == "cpu"


def test_torch_still_tells_that_a_process_was_forked():
    """What is asked is not public: the plain sentence depends on it."""
    assert torch.cuda._is_in_bad_fork() is False
    assert _device.is_forked() is False


# ------------------------------------------------------------------ no call unasked for

UNASKED = """
import functools, sys, types
import torch

def refuse(name):
    @functools.wraps(originals[name])  # torch looks at some of them
    def call(*args, **kwargs):
        # the CUDA build of torch calls some of its own functions on the CPU too
        caller = sys._getframe(1).f_globals["__name__"]
        if caller.startswith("skpararnn") or not torch.backends.cuda.is_built():
            raise AssertionError(f"torch.cuda.{name} was called by {caller}")
        return originals[name](*args, **kwargs)
    return call

originals = {
    name: value for name, value in vars(torch.cuda).items()
    if isinstance(value, types.FunctionType) and name != "_is_compiled"  # a constant
}
for name in originals:
    setattr(torch.cuda, name, refuse(name))
assert len(originals) > 20

import copy, pickle
import numpy as np
from sklearn.base import clone
from skpararnn import LRUClassifier, ParaRNNRegressor

X = np.random.default_rng(0).normal(size=(20, 6, 2))
for device in ("auto", "cuda", "cuda:1"):
    model = ParaRNNRegressor(device=device)
    assert repr(clone(model)) == repr(copy.deepcopy(model))
    pickle.loads(pickle.dumps(model.set_params(device="cuda:7")))
for cls in (ParaRNNRegressor, LRUClassifier):
    model = cls(device="cpu", d_s=2, K=2, n_layers=2, dropout=0.1, max_epochs=2)
    model.set_params(amp=True)
    y = X[:, 0, 0] > 0
    model.fit(X, y, X_val=X, y_val=y).partial_fit(X, y).predict(X)
    pickle.loads(pickle.dumps(model)).predict(X)
    model.net_
"""


def test_cuda_is_left_alone_unless_it_is_asked_for():
    subprocess.run([sys.executable, "-c", UNASKED], check=True, timeout=120)


@pytest.mark.parametrize("cls", [ParaRNNRegressor, ParaRNNClassifier])
def test_the_cpu_computes_the_same_beside_a_card(card, cls):
    model = small(cls).fit(X, target(cls, X))
    answers(model, X)
    assert card.used == []
    assert card.graphs == []
    assert model.device_ == "cpu"
    assert model.net_.capture_fallback_ == "the net was not trained on a card"
