"""Pickles: weights as arrays, no training data, the version, a net made anew."""

import copy
import pickle
import pickletools
import subprocess
import sys

import joblib
import numpy as np
import pytest
from cases import CELLS, ESTIMATORS, answers, ragged, sequences, small, target
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import skpararnn
from skpararnn import ParaRNNClassifier, ParaRNNRegressor

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)


@pytest.mark.parametrize(("cls", "options"), CELLS)
@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_round_trips(cls, options, protocol, tmp_path):
    X = ragged(sequences())
    model = small(cls, n_layers=2, **options).fit(X, target(cls, X))
    expected = answers(model, X)
    joblib.dump(model, tmp_path / "model.joblib")
    loaded = [
        pickle.loads(pickle.dumps(model, protocol)),
        joblib.load(tmp_path / "model.joblib"),
        copy.deepcopy(model),
        copy.copy(model),
    ]
    for again in loaded:
        assert_array_equal(answers(again, X), expected)
        assert again.get_params() == model.get_params()
        assert again.history_ == model.history_
    assert_array_equal(answers(loaded[0].fit(X, target(cls, X)), X), expected)


@each_estimator
def test_a_pickle_holds_neither_tensors_nor_foreign_types(cls):
    X = sequences()
    model = small(cls).fit(X, target(cls, X))
    model.predict(X)
    named = {
        argument
        for opcode, argument, _ in pickletools.genops(pickle.dumps(model, 2))
        if opcode.name == "GLOBAL"
    }
    modules = {name.split()[0].split(".")[0] for name in named}
    assert modules <= {"skpararnn", "numpy", "_codecs", "copy_reg", "__builtin__"}


@each_estimator
def test_a_pickle_does_not_grow_with_the_data(cls):
    sizes = []
    for n in (20, 2000):
        X = sequences(n=n)
        model = small(cls, max_epochs=1, early_stopping=True).fit(X, target(cls, X))
        sizes.append(len(pickle.dumps(model)))
    assert sizes[1] < sizes[0] + 200


@each_estimator
def test_the_net_comes_back_on_demand(cls):
    X = sequences()
    model = small(cls).fit(X, target(cls, X))
    again = pickle.loads(pickle.dumps(model))
    assert "_net" not in vars(again)
    assert type(again.net_).__name__ == "SequenceNet"
    for one, other in zip(
        again.recurrent_blocks_, model.recurrent_blocks_, strict=True
    ):
        assert_array_equal(one, other)


def test_another_version_warns():
    X = sequences()
    model = small(ParaRNNRegressor).fit(X, X[:, 0, 0])
    state = model.__getstate__()
    assert state["_skpararnn_version"] == skpararnn.__version__
    state["_skpararnn_version"] = "0.0.1"
    other = ParaRNNRegressor()
    with pytest.warns(InconsistentVersionWarning, match="0.0.1 of skpararnn"):
        other.__setstate__(state)
    assert_array_equal(other.predict(X), model.predict(X))


def test_callbacks_that_cannot_be_pickled_are_left_out_with_a_word():
    from skorch.callbacks import Callback

    class Local(Callback):
        """Cannot be pickled: its class is no attribute of a module."""

    X = sequences()
    model = small(ParaRNNRegressor, callbacks=[Local()]).fit(X, X[:, 0, 0])
    with pytest.warns(UserWarning, match="cannot be pickled"):
        again = pickle.loads(pickle.dumps(model))
    assert again.callbacks is None
    assert len(model.callbacks) == 1
    assert_array_equal(again.predict(X), model.predict(X))


def test_unfitted_estimators_keep_all_their_callbacks():
    from skorch.callbacks import Callback

    class Local(Callback):
        """pickle cannot store it, the pickler of joblib's workers can."""

    model = small(ParaRNNRegressor, callbacks=[Local()])
    assert len(copy.deepcopy(model).callbacks) == 1
    (again,) = joblib.Parallel(n_jobs=2)([joblib.delayed(clone)(model)])
    assert len(again.callbacks) == 1


def test_predicting_after_loading_makes_no_training_net():
    X = sequences()
    model = small(ParaRNNRegressor, net_params={"optimizer__betas": (0.5, 0.5)})
    model.fit(X, X[:, 0, 0]).set_params(optimizer="sgd")
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(again.recurrent_blocks_, model.recurrent_blocks_)


@each_estimator
def test_unfitted_estimators_pickle(cls):
    again = pickle.loads(pickle.dumps(small(cls)))
    assert again.get_params() == small(cls).get_params()
    assert not hasattr(again, "n_iter_")


CHILD = """
import pickle, sys
import numpy as np
model, X = pickle.load(sys.stdin.buffer)
assert "torch" not in sys.modules, "loading a pickle imported torch"
print(model.predict_proba(X).tobytes().hex())
"""


def test_a_fresh_process_gives_the_same_answers():
    X = ragged(sequences())
    model = small(ParaRNNClassifier).fit(X, target(ParaRNNClassifier, X))
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=pickle.dumps((model, X)),
        capture_output=True,
        check=True,
    )
    found = np.frombuffer(bytes.fromhex(child.stdout.decode()), dtype=np.float32)
    assert_array_equal(found.reshape(20, 2), model.predict_proba(X))
