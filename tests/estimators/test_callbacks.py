"""skorch's callbacks, scikit-learn's, and Ctrl-C."""

import os
import signal
import time

import numpy as np
import pytest
from cases import answers, sequences, small, target
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
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
    """Presses Ctrl-C, or raises what Ctrl-C raises, at the end of an epoch."""

    def __init__(self, epoch, how, moment="on_epoch_end"):
        self.epoch = epoch
        self.how = how
        self.moment = moment

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


@pytest.mark.parametrize("moment", ["on_epoch_end", "on_batch_end"])
def test_a_callback_may_stop_by_raising_keyboard_interrupt(moment):
    model = small(
        ParaRNNRegressor, callbacks=[Interrupt(2, "statement", moment)], max_epochs=9
    ).fit(X, y)
    whole_epochs = 2 if moment == "on_epoch_end" else 1
    assert model.n_iter_ == whole_epochs
    assert len(model.loss_curve_) == whole_epochs
    assert model.best_epoch_ is not None


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


# ------------------------------------------------------------------------ scikit-learn

callback = pytest.importorskip(
    "sklearn.callback", reason="scikit-learn's callbacks came with 1.9"
)


class Watcher(callback.FitCallback):
    """Counts epochs and scores the estimator as it stands."""

    def __init__(self, stop_after=None):
        self.scores = []
        self.set_up = self.torn_down = 0
        self.ended = []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.set_up += 1

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, X, y, fitted_estimator):
        self.ended.append(context.task_name)
        if context.task_name == "epoch":
            self.scores.append(fitted_estimator.score(X, y))
        return len(self.scores) == self.stop_after


def test_scikit_learn_callbacks_see_every_epoch():
    watcher = Watcher()
    model = small(ParaRNNRegressor, max_epochs=6)
    model.set_callbacks(watcher).fit(X, y)
    assert len(watcher.scores) == 6
    assert watcher.scores[-1] > watcher.scores[0]
    assert watcher.scores[-1] == model.score(X, y)
    assert watcher.ended == ["epoch"] * 6 + ["fit"]
    assert (watcher.set_up, watcher.torn_down) == (1, 1)
    assert_array_equal(
        answers(model, X), answers(small(ParaRNNRegressor, max_epochs=6).fit(X, y), X)
    )


def test_a_scikit_learn_callback_may_stop():
    model = small(ParaRNNRegressor, max_epochs=20).set_callbacks(Watcher(stop_after=4))
    assert model.fit(X, y).n_iter_ == 4


def test_a_failing_fit_tears_the_callbacks_down():
    watcher = Watcher()
    model = small(ParaRNNRegressor, K=0).set_callbacks(watcher)
    with pytest.raises(ValueError, match="K"):
        model.fit(X, y)
    assert watcher.set_up == watcher.torn_down


def test_scoring_monitor_and_search():
    monitor = callback.ScoringMonitor(scoring="accuracy")
    labels = np.where(y > 0, "up", "down")
    model = small(ParaRNNClassifier).set_callbacks(monitor)
    model.fit(X, labels)
    log = monitor.get_logs().data_as_pandas
    assert (log.filter(like="task_name") == "epoch").any(axis=1).sum() == 3
    GridSearchCV(model, {"K": [1, 2]}, cv=2, error_score="raise").fit(X, labels)
