"""The same seed gives the same model, whatever goes on around it."""

import random
import subprocess
import sys

import joblib
import numpy as np
import pytest
import torch
from cases import CELLS, ESTIMATORS, answers, ragged, sequences, small, target
from joblib import parallel_config
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpararnn import ParaRNNClassifier, ParaRNNRegressor

OPTIONS = {"dropout": 0.3, "n_layers": 2, "early_stopping": True}


def fitted_answers(cls, seed=0, **options):
    X = ragged(sequences())
    model = small(cls, random_state=seed, **options).fit(X, target(cls, X))
    return answers(model, X)


@pytest.mark.parametrize(("cls", "options"), CELLS)
def test_the_seed_decides(cls, options):
    options = OPTIONS | options
    first = fitted_answers(cls, **options)
    assert_array_equal(fitted_answers(cls, **options), first)
    assert not np.array_equal(fitted_answers(cls, seed=1, **options), first)
    states = [np.random.RandomState(5), np.random.RandomState(5)]
    one, other = (fitted_answers(cls, seed=state, **options) for state in states)
    assert_array_equal(one, other)


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_no_seed_gives_different_models(cls):
    one, other = (fitted_answers(cls, seed=None) for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("seed", [None, 0, np.random.RandomState(0)])
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_global_generators_are_untouched(cls, seed):
    before = (
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002 - the global one is the point
        torch.get_rng_state().tolist(),
    )
    fitted_answers(cls, seed=seed, **OPTIONS)
    after = (
        random.getstate(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        torch.get_rng_state().tolist(),
    )
    assert after == before


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_a_random_state_moves_on(cls):
    X = sequences()
    model = small(cls, random_state=np.random.RandomState(0))
    one, other = (answers(model.fit(X, target(cls, X)), X) for _ in range(2))
    assert not np.array_equal(one, other)


def search(cls, **options):
    X = ragged(sequences(n=18))
    model = small(cls, **OPTIONS)
    grid = {"d_s": [1, 2], "lr": [0.01, 0.03]}
    found = GridSearchCV(model, grid, cv=3, error_score="raise", **options)
    found.fit(X, target(cls, X))
    return found.cv_results_["mean_test_score"], answers(found, X)


@pytest.mark.parametrize("cls", [ParaRNNClassifier, ParaRNNRegressor])
@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_parallel_searches_find_the_same_models(cls, backend):
    scores, best = search(cls)
    with parallel_config(backend=backend, n_jobs=2):
        parallel_scores, parallel_best = search(cls, n_jobs=2)
    assert_array_equal(parallel_scores, scores)
    assert_array_equal(parallel_best, best)


def test_fits_in_threads_do_not_mix():
    X = sequences()
    y = target(ParaRNNClassifier, X)
    models = [small(ParaRNNClassifier, random_state=i, **OPTIONS) for i in range(8)]
    expected = [clone(model).fit(X, y).predict_proba(X) for model in models]
    threads = joblib.Parallel(n_jobs=4, backend="threading")
    fitted = threads(joblib.delayed(model.fit)(X, y) for model in models)
    for model, probability in zip(fitted, expected, strict=True):
        assert_array_equal(model.predict_proba(X), probability)


def test_predict_in_threads_equals_predict():
    X = ragged(sequences(n=50))
    model = small(ParaRNNClassifier).fit(X, target(ParaRNNClassifier, X))
    expected = model.predict_proba(X)
    threads = joblib.Parallel(n_jobs=8, backend="threading")
    for found in threads(joblib.delayed(model.predict_proba)(X) for _ in range(40)):
        assert_array_equal(found, expected)


CHILD = """
import numpy as np
from skpararnn import ParaRNNClassifier
X = np.random.default_rng(0).normal(size=(20, 6, 2))
model = ParaRNNClassifier(K=3, max_epochs=3, random_state=0).fit(X, X[:, -1, 0] > 0)
print(model.predict_proba(X).tobytes().hex())
"""


def test_another_process_fits_the_same_model():
    found = [
        subprocess.run(
            [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    X = np.random.default_rng(0).normal(size=(20, 6, 2))
    model = ParaRNNClassifier(K=3, max_epochs=3, random_state=0).fit(X, X[:, -1, 0] > 0)
    here = model.predict_proba(X).tobytes().hex()
    assert [f.strip() for f in found] == [here, here]
