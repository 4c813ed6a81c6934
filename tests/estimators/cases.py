"""Small data and small estimators that the tests of this folder share."""

import numpy as np

from skpararnn import LRUClassifier, LRURegressor, ParaRNNClassifier, ParaRNNRegressor

CLASSIFIERS = [ParaRNNClassifier, LRUClassifier]
REGRESSORS = [ParaRNNRegressor, LRURegressor]
ESTIMATORS = CLASSIFIERS + REGRESSORS
CELLS = [
    (ParaRNNClassifier, {"cell": "rnn"}),
    (ParaRNNClassifier, {"cell": "lstm"}),
    (ParaRNNClassifier, {"cell": "gru"}),
    (LRUClassifier, {}),
]


def small(cls, **changes):
    """An estimator that fits in a blink."""
    settings = {
        "d_s": 2,
        "K": 3,
        "max_epochs": 3,
        "lr": 0.01,
        "lr_schedule": None,
        "batch_size": 8,
        "random_state": 0,
        "device": "cpu",
    }
    return cls(**settings | changes)


def sequences(n=20, T=6, n_features=2, seed=0):
    """Sequences of one length, (n, T, n_features)."""
    return np.random.default_rng(seed).normal(size=(n, T, n_features))


def target(cls, X, seed=0):
    """A target that depends on the first feature of the last real step."""
    last = np.array([x[~np.isnan(x[:, 0])][-1, 0] for x in X])
    if issubclass(cls, tuple(CLASSIFIERS)):
        return np.where(last > np.median(last), "up", "down")
    return last


def ragged(X, shortest=2, seed=0):
    """The beginnings of sequences, as a list."""
    rng = np.random.default_rng(seed)
    return [x[: rng.integers(shortest, len(x) + 1)] for x in X]


def object_array(sequences):
    """A list of arrays as a 1-D object array."""
    array = np.empty(len(sequences), dtype=object)
    for i, x in enumerate(sequences):
        array[i] = x
    return array


def padded(sequences, side="right", extra=0):
    """A list of arrays as a 3-D array padded with NaN."""
    T = max(map(len, sequences)) + extra
    X = np.full((len(sequences), T, sequences[0].shape[1]), np.nan)
    for row, x in zip(X, sequences, strict=True):
        row[slice(None, len(x)) if side == "right" else slice(T - len(x), None)] = x
    return X


def answers(model, X):
    """The most detailed answer of an estimator: probabilities or values."""
    return (
        model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    )
