"""Devices by name; this suite needs no card."""

import pytest
import torch
from cases import sequences, small
from numpy.testing import assert_array_equal

from skpararnn import ParaRNNRegressor

X = sequences()
y = X[:, 0, 0]
no_card = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


@no_card
def test_auto_takes_the_cpu_without_a_card():
    assert small(ParaRNNRegressor, device="auto").fit(X, y).device_ == "cpu"


@no_card
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_a_missing_card_is_an_error_in_fit(device):
    with pytest.raises(ValueError, match=f"device='{device}'.*no CUDA device"):
        small(ParaRNNRegressor, device=device).fit(X, y)


@no_card
def test_a_model_fitted_on_a_card_predicts_without_one():
    model = small(ParaRNNRegressor, device="auto").fit(X, y)
    expected = model.predict(X)
    model.device_ = "cuda"  # as a pickle from a machine with a card has it
    assert_array_equal(model.predict(X), expected)
    model.device = "cuda"
    with pytest.warns(UserWarning, match="predicts on the CPU"):
        assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "meta"])
def test_unknown_devices_are_named(device):
    with pytest.raises(ValueError, match=f"device must be .*got '{device}'"):
        small(ParaRNNRegressor, device=device).fit(X, y)


def test_the_cpu_is_taken_without_asking_for_a_card(monkeypatch):
    from skpararnn.estimators import _device

    def ask():
        raise AssertionError("CUDA was asked for")

    # torch itself may ask during a fit: its CUDA build does so in Adam's step
    monkeypatch.setattr(torch.cuda, "is_available", ask)
    assert _device.resolve("cpu") == "cpu"
    assert _device.at_hand("cpu", asked_for="cpu") == "cpu"


def test_the_cpu_may_be_numbered():
    model = small(ParaRNNRegressor, device="cpu:0").fit(X, y)
    assert model.device_ == "cpu"
    model.predict(X)
