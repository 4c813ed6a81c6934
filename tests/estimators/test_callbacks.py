"""skorch's callbacks, and Ctrl-C."""

import os
import signal
import time

import numpy as np
import pytest
from cases import sequences, small, target
from numpy.testing import assert_array_equal
from sklearn.base import clone
from skorch.callbacks import Callback, EarlyStopping, EpochScoring

from skpararnn import ParaRNNClassifier, ParaRNNRegressor

X = sequences(n=40)
y = target(ParaRNNRegressor, X)


class Recorder(Callback):
    """Remembers which moments it was told of."""

    def initialize(self):
        self.moments = []
        return self

    def on_train_begin(self, net, **kwargs):
        self.moments.append("train begins")

    def on_epoch_end(self, net, dataset_train=None, **kwargs):
        self.moments.append(len(dataset_train))

    def on_train_end(self, net, **kwargs):
        self.moments.append("train ends")


class Interrupt(Callback):
    """Presses Ctrl-C, or raises what Ctrl-C raises, at some moment of an epoch."""

    def __init__(self, epoch, how, moment="on_epoch_end"):
        self.epoch = epoch
        self.how = how
        self.moment = moment

    def on_train_begin(self, net, **kwargs):
        if self.moment == "on_train_begin":
            self.stop()

    def on_train_end(self, net, **kwargs):
        if self.moment == "on_train_end":
            self.stop()

    def on_epoch_end(self, net, **kwargs):
        if len(net.history) == self.epoch and self.moment == "on_epoch_end":
            self.stop()

    def on_batch_end(self, net, **kwargs):
        if len(net.history) == self.epoch and self.moment == "on_batch_end":
            self.stop()

    def stop(self):
        if self.how == "statement":
            raise KeyboardInterrupt
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)


# ------------------------------------------------------------------------------ skorch


def test_skorch_callbacks_are_called_and_copied():
    recorder = Recorder()
    model = small(ParaRNNRegressor, callbacks=[("recorder", recorder)]).fit(X, y)
    assert not hasattr(recorder, "moments")
    copied = dict(model.net_.callbacks_)["recorder"]
    assert copied.moments == ["train begins", 40, 40, 40, "train ends"]
    assert clone(model).callbacks[0][0] == "recorder"


def test_skorch_early_stopping_ends_the_training_normally():
    stop = EarlyStopping(monitor="train_loss", patience=2, threshold=1e9, sink=len)
    model = small(ParaRNNRegressor, callbacks=[stop], max_epochs=50).fit(X, y)
    assert model.n_iter_ < 50
    assert len(model.loss_curve_) == model.n_iter_
    assert np.isfinite(model.predict(X)).all()


def test_skorch_scoring_lands_in_the_history():
    def largest_output(net, dataset, y=None):
        return 1.5

    scoring = EpochScoring(largest_output, name="largest", on_train=True)
    model = small(ParaRNNRegressor, callbacks=[scoring]).fit(X, y)
    assert [epoch["largest"] for epoch in model.history_] == [1.5] * 3


@pytest.mark.parametrize("cls", [ParaRNNClassifier, ParaRNNRegressor])
def test_skorch_scoring_by_name_sees_answers(cls):
    name = "accuracy" if cls is ParaRNNClassifier else "r2"
    scoring = EpochScoring(name, name="watched", lower_is_better=False)
    model = small(cls, callbacks=[scoring], max_epochs=6)
    goal = y > 0 if cls is ParaRNNClassifier else y
    model.fit(X, goal, sample_weight=np.linspace(0.5, 1, 40), X_val=X, y_val=goal)
    watched = [epoch["watched"] for epoch in model.history_]
    np.testing.assert_allclose(watched, model.validation_scores_, atol=1e-6)


def test_every_moment_of_every_batch_is_told():
    class Teller(Callback):
        def on_train_begin(self, net, **kwargs):
            self.told = []

        def on_batch_begin(self, net, batch, training, **kwargs):
            self.told.append(("begin", training, len(batch[1])))

        def on_grad_computed(self, net, named_parameters, batch, **kwargs):
            names = [name for name, weight in named_parameters if weight.grad.any()]
            self.told.append(("gradient", "head.bias" in names, len(batch[1])))

        def on_batch_end(self, net, batch, training, loss, y_pred, **kwargs):
            record = net.history[-1, "batches", -1]
            prefix = "train" if training else "valid"
            assert record[f"{prefix}_loss"] == loss.item()
            assert record[f"{prefix}_batch_size"] == len(y_pred)
            self.told.append(("end", training, len(batch[1])))

    model = small(ParaRNNRegressor, callbacks=[("teller", Teller())], max_epochs=1)
    net = model.fit(X[:12], y[:12], X_val=X[:3], y_val=y[:3]).net_
    moments = ["begin", "gradient", "end"]
    train = [(moment, True, n) for n in (8, 4) for moment in moments]
    told = [*train, ("begin", False, 3), ("end", False, 3)]
    assert dict(net.callbacks_)["teller"].told == told
    losses, sizes = zip(
        *net.history[-1, "batches", :, ("train_loss", "train_batch_size")], strict=True
    )
    assert sizes == (8, 4)
    np.testing.assert_allclose(
        model.loss_curve_, [np.average(losses, weights=sizes)], rtol=1e-12
    )


def test_a_function_set_on_a_callback_is_called():
    seen = []
    callback = Callback()
    callback.on_batch_end = lambda net, loss, **kwargs: seen.append(loss.item())
    small(ParaRNNRegressor, callbacks=[callback], max_epochs=1).fit(X, y)
    assert len(seen) == 5


def test_callbacks_see_clipped_gradients():
    norms = []

    class Watch(Callback):
        def on_grad_computed(self, net, named_parameters, **kwargs):
            squares = [weight.grad.square().sum() for _, weight in named_parameters]
            norms.append(sum(squares).sqrt().item())

    small(ParaRNNRegressor, callbacks=[Watch()], grad_clip=1e-3).fit(X, y)
    np.testing.assert_allclose(norms, 1e-3, rtol=1e-5)


def test_a_callback_that_predicts_leaves_the_training_as_it_was():
    class Predict(Callback):
        def on_batch_end(self, net, training, **kwargs):
            if training:
                net.predict(kept[0])

        def on_epoch_begin(self, net, dataset_train, **kwargs):
            kept[:] = [dataset_train]

    kept = []
    options = {"n_layers": 2, "dropout": 0.5}  # it shows which mode the module is in
    plain = small(ParaRNNRegressor, **options).fit(X, y)
    watched = small(ParaRNNRegressor, callbacks=[Predict()], **options).fit(X, y)
    assert watched.loss_curve_ == plain.loss_curve_


@pytest.mark.parametrize("moment", ["on_epoch_end", "on_batch_end"])
def test_a_callback_may_stop_by_raising_keyboard_interrupt(moment):
    model = small(
        ParaRNNRegressor, callbacks=[Interrupt(2, "statement", moment)], max_epochs=9
    ).fit(X, y)
    whole_epochs = 2 if moment == "on_epoch_end" else 1
    assert model.n_iter_ == whole_epochs
    assert len(model.loss_curve_) == whole_epochs
    assert model.best_epoch_ is not None


@pytest.mark.parametrize(
    ("moment", "n_epochs"), [("on_train_begin", 0), ("on_train_end", 3)]
)
def test_a_callback_may_stop_before_and_after_the_training(moment, n_epochs):
    model = small(ParaRNNRegressor, callbacks=[Interrupt(1, "statement", moment)])
    assert model.fit(X, y).n_iter_ == n_epochs


def test_callbacks_that_need_validation_say_what_to_do():
    model = small(ParaRNNRegressor, callbacks=[EarlyStopping()])
    with pytest.raises(ValueError, match=r"valid_loss.*X_val and y_val"):
        model.fit(X, y)


def test_a_handler_set_in_python_is_no_callback_that_stops():
    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            small(ParaRNNRegressor, callbacks=[Interrupt(1, "signal")]).fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_in_partial_fit_keeps_the_old_model():
    model = small(ParaRNNRegressor).partial_fit(X, y)
    before = model.predict(X)
    model.set_params(callbacks=[Interrupt(1, "signal", "on_batch_end")])
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    assert_array_equal(model.predict(X), before)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("wrong", [["EarlyStopping"], [object()], [("name", 3)]])
def test_what_is_no_callback_is_named(wrong):
    with pytest.raises(ValueError, match="callbacks must hold skorch callbacks"):
        small(ParaRNNRegressor, callbacks=wrong).fit(X, y)


@pytest.mark.parametrize("moment", ["on_epoch_end", "on_batch_end"])
def test_ctrl_c_reaches_the_caller_and_keeps_the_old_model(moment):
    model = small(ParaRNNRegressor).fit(X, y)
    before, history = model.predict(X), model.history_
    model.set_params(callbacks=[Interrupt(2, "signal", moment)], max_epochs=9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert_array_equal(model.predict(X), before)
    assert model.history_ is history
    fresh = small(ParaRNNRegressor, callbacks=[Interrupt(1, "signal", moment)])
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    assert not hasattr(fresh, "n_iter_")


def test_ctrl_c_outside_a_callback_reaches_the_caller():
    import threading

    model = small(ParaRNNRegressor, max_epochs=10**6)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    timer.join()
    assert time.monotonic() - start < 10  # a generous limit that catches a hang
    assert not hasattr(model, "n_iter_")


def test_warm_start_is_whole_after_ctrl_c():
    model = small(ParaRNNRegressor, warm_start=True).fit(X, y)
    before = model.predict(X)
    model.set_params(callbacks=[Interrupt(2, "signal")])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert_array_equal(model.predict(X), before)
    model.set_params(callbacks=None).fit(X, y)
    assert model.n_iter_ == 6
