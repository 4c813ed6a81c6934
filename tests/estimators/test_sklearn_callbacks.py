"""scikit-learn's callbacks (scikit-learn 1.9 and newer)."""

import numpy as np
import pytest
from cases import answers, sequences, small, target
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV
from test_callbacks import Interrupt

from skpararnn import ParaRNNClassifier, ParaRNNRegressor

callback = pytest.importorskip(
    "sklearn.callback", reason="scikit-learn's callbacks came with 1.9"
)

X = sequences(n=40)
y = target(ParaRNNRegressor, X)


class Watcher(callback.FitCallback):
    """Counts epochs and scores the estimator as it stands."""

    def __init__(self, stop_after=None):
        self.scores = []
        self.set_up = self.torn_down = 0
        self.begun, self.ended = [], []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.set_up += 1

    def teardown(self, estimator, context):
        self.torn_down += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

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


def test_tasks_that_begin_also_end():
    watcher = Watcher()
    model = small(
        ParaRNNRegressor, callbacks=[Interrupt(2, "statement", "on_batch_end")]
    )
    model.set_callbacks(watcher).fit(X, y)
    assert model.n_iter_ == 1
    assert sorted(watcher.begun) == sorted(watcher.ended)
