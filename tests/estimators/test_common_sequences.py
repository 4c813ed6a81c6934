"""The twin of scikit-learn's checks for what it has none: 3-D arrays and lists.

Each check runs for every estimator and, where it makes sense, every container.
"""

import pickle

import numpy as np
import pandas as pd
import pytest
from cases import (
    CELLS,
    CLASSIFIERS,
    ESTIMATORS,
    REGRESSORS,
    answers,
    object_array,
    padded,
    ragged,
    sequences,
    small,
    target,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

CONTAINERS = {
    "3d": lambda X: X,
    "list": list,
    "object": lambda X: object_array(list(X)),
    "ragged list": ragged,
    "ragged object": lambda X: object_array(ragged(X)),
    "padded right": lambda X: padded(ragged(X)),
    "padded left": lambda X: padded(ragged(X), side="left", extra=2),
}

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)
each_container = pytest.mark.parametrize("container", CONTAINERS)


def data(cls, container="3d", **options):
    X = CONTAINERS[container](sequences(**options))
    return X, target(cls, list(X))


def take(X, rows):
    return [X[i] for i in rows] if isinstance(X, list) else X[rows]


# ----------------------------------------------------------------------- the contract


@each_estimator
@each_container
def test_fit_returns_self_and_fits_again_to_the_same_model(cls, container):
    X, y = data(cls, container)
    model = small(cls)
    assert model.fit(X, y) is model
    first = answers(model, X)
    assert_array_equal(answers(model.fit(X, y), X), first)
    assert_array_equal(answers(clone(model).fit(X, y), X), first)


@each_estimator
@each_container
def test_each_row_is_answered_alone_as_in_company(cls, container):
    X, y = data(cls, container, n=30)
    model = small(cls).fit(X, y)
    together = answers(model, X)
    assert len(together) == 30
    order = np.random.default_rng(0).permutation(30)
    assert_array_equal(answers(model, take(X, order)), together[order])
    for i in (0, 13, 29):
        assert_array_equal(answers(model, take(X, [i])), together[[i]])


@pytest.mark.parametrize(("cls", "options"), CELLS)
def test_a_long_neighbour_changes_nothing(cls, options):
    X = ragged(sequences(n=12, T=9))
    model = small(cls, **options).fit(X, target(cls, X))
    alone = answers(model, X)
    long = np.random.default_rng(1).normal(size=(180, 2))
    assert_array_equal(answers(model, [*X, long])[:-1], alone)


@each_estimator
def test_all_containers_are_one_model(cls):
    X = ragged(sequences())
    y = target(cls, X)
    model = small(cls).fit(X, y)
    expected = answers(model, X)
    for same in (
        tuple(X),
        object_array(X),
        padded(X),
        padded(X, extra=3),
        padded(X, side="left"),
    ):
        assert_array_equal(answers(model, same), expected)
        assert_array_equal(answers(small(cls).fit(same, y), same), expected)


@each_estimator
@each_container
def test_pickles_to_the_same_answers(cls, container):
    X, y = data(cls, container)
    model = small(cls).fit(X, y)
    twice = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model))))
    assert_array_equal(answers(twice, X), answers(model, X))


@each_estimator
@each_container
def test_predict_sets_nothing(cls, container):
    X, y = data(cls, container)
    model = small(cls).fit(X, y)
    before = dict(vars(model))
    answers(model, X)
    model.predict(X)
    model.score(X, y)
    model.hidden_states(X)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


@each_estimator
def test_inputs_are_left_alone(cls):
    X, y = data(cls)
    parts = ragged(X)
    copies = X.copy(), y.copy(), [x.copy() for x in parts]
    small(cls).fit(X, y).predict(X)
    small(cls).fit(parts, y).predict(parts)
    assert_array_equal(X, copies[0])
    assert_array_equal(y, copies[1])
    for x, copy in zip(parts, copies[2], strict=True):
        assert_array_equal(x, copy)


@each_estimator
def test_read_only_memory_maps_are_read(cls, tmp_path):
    X, y = data(cls)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = small(cls).fit(mapped, y)
    assert_array_equal(answers(model, mapped), answers(small(cls).fit(X, y), X))
    assert_array_equal(answers(model, list(mapped)), answers(model, X))


@each_estimator
@pytest.mark.parametrize("layout", ["strided", "fortran", "reversed", "float32", "int"])
def test_memory_layout_and_type_change_nothing(cls, layout):
    X = np.round(sequences() * 8) / 8  # exact in every type below but int
    if layout == "int":
        X = np.round(X * 8)
    y = target(cls, X)
    same = {
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "fortran": np.asfortranarray(X),
        "reversed": X[::-1].copy()[::-1],
        "float32": X.astype(np.float32),
        "int": X.astype(np.int64),
    }[layout]
    model = small(cls).fit(X, y)
    assert_array_equal(answers(small(cls).fit(same, y), same), answers(model, X))


@each_estimator
def test_unfitted_says_so(cls):
    X, _ = data(cls)
    for method in {"predict", "predict_proba", "hidden_states"} & set(dir(cls)):
        with pytest.raises(NotFittedError):
            getattr(small(cls), method)(X)
    assert not hasattr(small(cls), "net_")
    assert not hasattr(small(cls), "recurrent_blocks_")


@each_estimator
def test_one_sample_one_step_one_feature(cls):
    X, y = data(cls, n=1, T=1, n_features=1)
    model = small(cls).fit(X, y)
    assert model.predict(X).shape == (1,)
    assert model.predict([X[0]]).shape == (1,)


@each_estimator
@pytest.mark.parametrize("batch_size", [1, 7, 19, 20, 21, 5000, "full"])
def test_any_batch_size_uses_every_row(cls, batch_size):
    X, y = data(cls)
    model = small(cls, batch_size=batch_size).fit(X, y)
    assert model.predict(X).shape == (20,)
    assert np.isfinite(model.loss_curve_).all()


@each_estimator
@each_container
def test_works_in_cross_validation_and_pipelines(cls, container):
    X, y = data(cls, container, n=24)
    model = small(cls)
    assert np.isfinite(cross_val_score(model, X, y, cv=3, error_score="raise")).all()
    assert cross_val_predict(model, X, y, cv=3).shape == (24,)
    pipeline = make_pipeline(FunctionTransformer(), model).fit(X, y)
    assert_array_equal(pipeline.predict(X), small(cls).fit(X, y).predict(X))


# ----------------------------------------------------------------------------- weights


@each_estimator
@each_container
def test_weights_of_one_are_no_weights(cls, container):
    X, y = data(cls, container)
    plain = small(cls).fit(X, y)
    weighted = small(cls).fit(X, y, sample_weight=np.ones(20))
    assert_array_equal(answers(weighted, X), answers(plain, X))


@each_estimator
@each_container
def test_zero_weight_is_absence(cls, container):
    X, y = data(cls, container)
    weight = np.where(np.arange(20) % 3 == 0, 0.0, 1.0)
    kept = np.flatnonzero(weight)
    weighted = small(cls).fit(X, y, sample_weight=weight)
    without = small(cls).fit(take(X, kept), y[kept])
    assert_array_equal(answers(weighted, X), answers(without, X))


@each_estimator
@each_container
def test_weights_equal_repetition_in_one_batch(cls, container):
    X, y = data(cls, container)
    weight = np.arange(20) % 3
    rows = np.repeat(np.arange(20), weight)
    exact = {"dtype": "float64", "batch_size": "full", "max_epochs": 10}
    weighted = small(cls, **exact).fit(X, y, sample_weight=weight)
    repeated = small(cls, **exact).fit(take(X, rows), y[rows])
    assert_allclose(answers(weighted, X), answers(repeated, X), rtol=1e-7, atol=1e-9)


# ------------------------------------------------------------------------------ errors


@each_estimator
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("container", ["3d", "list", "padded left"])
def test_bad_values_are_named_with_sample_and_step(cls, container, bad):
    X = sequences(n=8)
    if container == "padded left":
        X = padded(list(X), side="left", extra=2)
    y = target(cls, list(X))
    model = small(cls).fit(list(X) if container == "list" else X, y)
    broken = X.copy()
    broken[3, 4, 1] = bad
    if container == "list":
        broken = list(broken)
    word = "NaN" if np.isnan(bad) else "infinity"
    for call in (lambda: small(cls).fit(broken, y), lambda: model.predict(broken)):
        with pytest.raises(ValueError, match=f"{word}.*sample 3, step 4, feature 1"):
            call()


@each_estimator
def test_refusals_name_the_problem(cls):
    X, y = data(cls, n=8)
    model = small(cls).fit(X, y)
    wrong = {
        "expecting 2 features": X[:, :, :1],
        "0 sample": X[:0],
        "at least 1 time step": X[:, :0],
        "at least 1 time step and 1 feature": X[:, :, :0],
        "1D array": X[:, 0, 0],
        "4 dimensions": X[None],
        "sample 2 of X is an empty": [*X[:2], np.zeros((0, 2))],
        "sample 0 has 2 features, sample 1 has 1": [X[0], X[1][:, :1]],
        "sample 1 of X has 3 dimensions": [X[0], X[1:2]],
        "sample 0 of X cannot be read": [np.array([[1, 2], [3]], dtype=object)],
        "Complex data not supported": X * 1j,
    }
    for words, bad in wrong.items():
        with pytest.raises(ValueError, match=words):
            model.predict(bad)
    with pytest.raises(TypeError, match="X is a dict"):
        model.predict({"X": X})
    texts = X.astype(object)
    texts[3, 4, 1] = "high"
    for bad in (texts, list(texts)):
        with pytest.raises(ValueError, match=r"sample 3.*step 4, feature 1.*'high'"):
            model.predict(bad)


@each_estimator
def test_a_refused_fit_leaves_the_model_as_it_was(cls):
    X, y = data(cls)
    model = small(cls).fit(X, y)
    before = answers(model, X)
    for bad_X, bad_y in [(X[:, :, :1], y[:-1]), (X[:, :, :1] * np.nan, y), (X, None)]:
        with pytest.raises(ValueError, match=r"."):
            model.fit(bad_X, bad_y)
    model.K = 0
    with pytest.raises(ValueError, match="K"):
        model.fit(X, y)
    assert model.n_features_in_ == 2
    assert_array_equal(answers(model, X), before)


@each_estimator
def test_refits_on_other_sequences_forget_the_first(cls):
    frame = pd.DataFrame(sequences()[:, :, 0], columns=list("abcdef"))
    X, y = data(cls, n_features=3)
    model = small(cls).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcdef")
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(answers(model, X), answers(small(cls).fit(X, y), X))


# ------------------------------------------------------------------ targets and answers


@pytest.mark.parametrize("cls", CLASSIFIERS)
@pytest.mark.parametrize(
    "labels",
    [
        np.array(["walk", "run", "sit"]),
        np.array(["walk", "run", "sit"], dtype=object),
        np.array([-7, 0, 40]),
        np.array([1.0, 2.0, 5.0]),
        np.array([0, 1, 2], dtype=np.uint8),
    ],
)
@each_container
def test_labels_come_back_as_they_were(cls, labels, container):
    X = CONTAINERS[container](sequences(n=21))
    y = labels[np.arange(21) % 3]
    model = small(cls).fit(X, y)
    assert_array_equal(model.classes_, np.sort(labels))
    assert model.classes_.dtype == labels.dtype
    assert set(model.predict(X)) <= set(labels)
    probability = model.predict_proba(X)
    assert probability.shape == (21, 3)
    assert probability.dtype == np.float32
    assert_allclose(probability.sum(axis=1), 1, rtol=1e-6)
    assert_allclose(np.exp(model.predict_log_proba(X)), probability, rtol=1e-5)
    decision = model.decision_function(X)
    assert_array_equal(decision.argmax(axis=1), probability.argmax(axis=1))


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_two_classes_have_one_margin(cls):
    X = sequences()
    y = np.arange(20) % 2 == 1
    model = small(cls).fit(X, y)
    assert model.predict(X).dtype == bool
    odds = model.decision_function(X)
    p = model.predict_proba(X)
    assert_allclose(odds, np.log(p[:, 1] / p[:, 0]), rtol=1e-4, atol=1e-5)
    assert_array_equal(model.predict(X), odds > 0)


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_one_class_is_certain(cls):
    X = sequences()
    model = small(cls).fit(X, ["only"] * 20)
    assert set(model.predict(X)) == {"only"}
    assert_array_equal(model.predict_proba(X), np.ones((20, 1)))


@pytest.mark.parametrize("cls", REGRESSORS)
def test_predictions_have_the_shape_of_y(cls):
    X = sequences()
    y = target(cls, X)
    flat = small(cls).fit(X, y).predict(X)
    assert flat.shape == (20,)
    assert flat.dtype == np.float64
    with pytest.warns(DataConversionWarning, match="column vector"):
        column = small(cls).fit(X, y[:, None])
    assert_array_equal(column.predict(X), flat)
    assert_array_equal(small(cls).fit(X, list(y)).predict(X), flat)
    assert_array_equal(small(cls).fit(X, pd.Series(y)).predict(X), flat)
    both = small(cls).fit(X, np.column_stack([y, -y]))
    assert both.predict(X).shape == (20, 2)
    assert both.n_outputs_ == 2


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_a_column_of_labels_is_read_as_labels(cls):
    X, y = data(cls)
    with pytest.warns(DataConversionWarning):
        model = small(cls).fit(X, y[:, None])
    assert_array_equal(model.predict_proba(X), small(cls).fit(X, y).predict_proba(X))


@each_estimator
@pytest.mark.parametrize(
    "container", ["3d", "ragged list", "ragged object", "padded left"]
)
def test_hidden_states_have_the_shape_of_x(cls, container):
    X, y = data(cls, container)
    model = small(cls).fit(X, y)
    states = model.hidden_states(X)
    assert type(states) is type(X)
    assert len(states) == len(X)
    for state, x in zip(states, X, strict=True):
        assert state.shape == (len(x), 6)
        assert_array_equal(np.isnan(state).all(axis=1), np.isnan(x).all(axis=1))
