"""What only a real card can show; skipped where there is none."""

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
import torch
from cases import CELLS, answers, ragged, sequences, small, target
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

from skpararnn import ParaRNNClassifier, ParaRNNRegressor
from skpararnn.estimators import _device
from skpararnn.estimators._training import SequenceNet

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(
        not torch.cuda.is_available(), reason="needs a CUDA card, torch finds none here"
    ),
]

X = sequences(n=67)  # batches of 8, and a last one of 3
Y = target(ParaRNNRegressor, X)

# Sums are taken in another order, and training makes more of it.
ROUNDING = {"rtol": 2e-3, "atol": 2e-4}

TRAININGS = [
    {},
    {"lr_schedule": "cosine", "grad_clip": 0.05},
    {"lr_schedule": "plateau", "lr": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.1, "grad_clip": None},
    {"bidirectional": True, "n_layers": 2},
    {"dtype": "float64"},
    {"backend": "reference"},
]


def fit(cls=ParaRNNRegressor, data=X, device="cuda", **options):
    return small(cls, device=device, **options).fit(data, target(cls, data))


def assert_same_model(one, other, data=X):
    assert_allclose(one.loss_curve_, other.loss_curve_, **ROUNDING)
    assert_allclose(answers(one, data), answers(other, data), **ROUNDING)


@pytest.mark.parametrize(("cls", "options"), CELLS)
@pytest.mark.parametrize("container", [np.asarray, ragged])
def test_a_card_trains_the_model_of_the_cpu(cls, options, container):
    data = container(X)
    model = fit(cls, data, max_epochs=8, **options)
    assert model.device_ == "cuda"
    assert model.net_.capture_fallback_ is None
    assert_same_model(
        model, fit(cls, data, device="cpu", max_epochs=8, **options), data
    )


@pytest.mark.parametrize("options", TRAININGS)
def test_captured_steps_train_the_model_of_the_cpu(options):
    model = fit(max_epochs=8, **options)
    assert model.net_.capture_fallback_ is None
    assert_same_model(model, fit(device="cpu", max_epochs=8, **options))


@pytest.mark.parametrize("container", [np.asarray, ragged])
def test_data_that_do_not_fit_are_sent(container, monkeypatch):
    data = container(X)
    expected = fit(data=data)
    monkeypatch.setattr(_device, "free_bytes", lambda device: 0)
    assert_same_model(fit(data=data), expected, data)


def test_captured_dropout_is_that_of_eager_steps(monkeypatch):
    from skpararnn.estimators import _capture

    options = {"n_layers": 2, "dropout": 0.5, "max_epochs": 8}
    captured = fit(**options)
    assert captured.net_.capture_fallback_ is None
    monkeypatch.setattr(_capture, "MAX_GRAPHS", 0)
    assert_same_model(captured, fit(**options))


def test_the_seed_decides():
    one, other = (fit(n_layers=2, dropout=0.5) for _ in range(2))
    assert_array_equal(one.predict(X), other.predict(X))


def test_answers_do_not_depend_on_the_number_of_rows():
    model = fit()
    for rows in (slice(0, 1), slice(66, 67), slice(10, 50)):
        assert_array_equal(model.predict(X[rows]), model.predict(X)[rows])


# ------------------------------------------------------------------------ what is left


def test_memory_returns_to_its_start():
    fit().predict(X)  # handles and kernels that stay for good
    gc.collect()
    before = torch.cuda.memory_allocated()
    gc.disable()
    try:
        for _ in range(20):
            fit(early_stopping=True, n_layers=2, dropout=0.5).predict(X)
            assert torch.cuda.memory_allocated() == before
    finally:
        gc.enable()


def test_a_warm_start_keeps_its_state_on_the_cpu():
    model = fit(warm_start=True)
    state = model.net_.optimizer_.state
    assert {t.device.type for s in state.values() for t in s.values()} == {"cpu"}
    once = fit(max_epochs=6).loss_curve_[:4]
    assert_allclose(model.fit(X, Y).loss_curve_[:4], once, rtol=0.2)


def test_global_generators_are_untouched():
    before = torch.cuda.get_rng_state()
    fit(n_layers=2, dropout=0.5)
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_a_capture_that_fails_leaves_everything_usable(monkeypatch):
    compute = SequenceNet.compute_gradients

    def wait(self, batch):
        step = compute(self, batch)
        step["loss"].item()
        return step

    options = {"n_layers": 2, "dropout": 0.5}
    before = torch.cuda.get_rng_state()
    with monkeypatch.context() as patch:
        patch.setattr(SequenceNet, "compute_gradients", wait)
        model = fit(**options)
    assert model.net_.capture_fallback_.startswith("the step cannot be captured")
    again = fit(**options)
    assert again.net_.capture_fallback_ is None
    assert_same_model(model, again)
    torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(before)


# ---------------------------------------------------------------- processes and threads


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_a_search_shares_a_card(backend):
    grid = {"d_s": [1, 2], "lr": [0.01, 0.03]}
    model = small(ParaRNNClassifier, device="cuda")
    search = GridSearchCV(model, grid, cv=3, n_jobs=2, error_score="raise")
    with parallel_config(backend=backend):
        search.fit(X, target(ParaRNNClassifier, X))
    assert search.best_estimator_.device_ == "cuda"
    model.set_params(device="cpu")
    alone = GridSearchCV(model, grid, cv=3).fit(X, target(ParaRNNClassifier, X))
    scores = [s.cv_results_["mean_test_score"] for s in (search, alone)]
    assert_allclose(*scores, atol=0.05)  # a row or two near the border


def test_fits_in_threads_do_not_mix():
    models = [small(ParaRNNRegressor, device="cuda", random_state=i) for i in range(6)]
    alone = [small(ParaRNNRegressor, random_state=i).fit(X, Y) for i in range(6)]
    threads = joblib.Parallel(n_jobs=3, backend="threading")
    fitted = threads(joblib.delayed(model.fit)(X, Y) for model in models)
    for one, other in zip(fitted, alone, strict=True):
        assert_same_model(one, other)


def _fit_in_child(device):
    try:
        return small(ParaRNNRegressor, device=device).fit(X, Y).device_
    except RuntimeError as error:
        return str(error)


@pytest.mark.skipif(
    not hasattr(os, "fork"), reason="needs an operating system that forks"
)
def test_a_forked_process_is_told_what_to_do():
    fit()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        for device in ("auto", "cuda"):
            told = pool.apply_async(_fit_in_child, (device,)).get(timeout=60)
            assert "forked from one that had used CUDA" in told
        assert pool.apply_async(_fit_in_child, ("cpu",)).get(timeout=60) == "cpu"


WITHOUT = """
import pickle, sys, warnings
model, X = pickle.load(sys.stdin.buffer)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    values = model.predict(X)
assert ["predicts on the CPU" in str(w.message) for w in seen] == [True], seen
print(values.astype("f8").tobytes().hex())
"""


def test_a_pickle_is_read_where_there_is_no_card():
    model = fit()
    child = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        input=pickle.dumps((model, X)),
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        check=True,
    )
    found = np.frombuffer(bytes.fromhex(child.stdout.decode()))
    assert_allclose(found, model.predict(X), rtol=1e-4, atol=1e-5)


ON_CPU = """
import numpy as np, torch
from skpararnn import ParaRNNRegressor
X = np.random.default_rng(0).normal(size=(20, 6, 2))
ParaRNNRegressor(device="cpu", max_epochs=1).fit(X, X[:, 0, 0]).predict(X)
assert not torch.cuda.is_initialized()
"""


def test_the_cpu_starts_no_cuda():
    subprocess.run([sys.executable, "-c", ON_CPU], check=True)


# ------------------------------------------------------------------------------ options


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs a second CUDA card")
def test_the_second_card():
    model = fit(device="cuda:1")
    assert model.net_.capture_fallback_ is None
    assert_same_model(model, fit(device="cpu"))


def test_mixed_precision():
    model = fit(amp=True, aggregation="ffn")
    plain = fit(aggregation="ffn")
    assert model.loss_curve_ != plain.loss_curve_
    assert_allclose(model.loss_curve_, plain.loss_curve_, rtol=0.05)


@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of torch's other parts
def test_compiled_training():
    model = fit(compile=True, max_epochs=2)
    assert_same_model(model, fit(device="cpu", max_epochs=2))
