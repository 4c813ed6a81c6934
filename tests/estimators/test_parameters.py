"""Constructor parameters: stored untouched, checked in fit, named in errors."""

import inspect

import numpy as np
import pytest
from cases import ESTIMATORS, sequences, small, target
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skpararnn import LRUClassifier, ParaRNNClassifier, ParaRNNRegressor

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)

WRONG = {
    "d_s": [0, -1, 1.5, "2", None, True, (2, 2)],
    "K": [0, -3, 2.0, "8", None, False],
    "n_layers": [0, 1.5],
    "aggregation": ["sum", 3],
    "dropout": [-0.1, 1.0, "half"],
    "bidirectional": ["no", None],
    "init": ["zeros", 3],
    "output": ["first", None, "sequence"],
    "optimizer": ["adamm", 3, None],
    "lr": [0, -1, np.nan, np.inf, "fast"],
    "weight_decay": [-1, np.nan],
    "lr_schedule": ["warmup", 3, dict],
    "grad_clip": [0, -1, "off"],
    "max_epochs": [0, 1.5, None],
    "batch_size": [0, 2.5, "all", None],
    "shuffle": ["yes", None],
    "early_stopping": ["yes", None],
    "validation_fraction": [0, 1, 1.5, None],
    "validation_split": ["first", None],
    "n_iter_no_change": [0, 1.5],
    "tol": [-1, np.nan],
    "warm_start": ["yes"],
    "n_channels": [0, 1.5],
    "columns_order": ["newest", None],
    "columns_layout": ["long", None],
    "device": ["gpu", 0, "cuda:x"],
    "dtype": ["float16", np.float32, None],
    "amp": ["yes", None, 16],
    "compile": ["yes", None, "inductor"],
    "backend": ["fastest", None],
    "callbacks": ["EarlyStopping", 3],
    "net_params": ["forget_bias", [1]],
    "verbose": [-1, "loud"],
}


@each_estimator
@pytest.mark.parametrize(
    ("name", "value"), [(name, v) for name, values in WRONG.items() for v in values]
)
def test_wrong_values_are_named(cls, name, value):
    X = sequences(n=6)
    model = small(cls, **{name: value})
    with pytest.raises((ValueError, TypeError), match=name):
        model.fit(X, target(cls, X))
    assert not hasattr(model, "n_iter_")


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (ParaRNNClassifier, "cell", "lru"),
        (ParaRNNClassifier, "cell", "elman"),
        (ParaRNNClassifier, "cell", None),
        (ParaRNNClassifier, "activation", "swish"),
        (ParaRNNClassifier, "class_weight", "even"),
        (ParaRNNRegressor, "normalize_y", "yes"),
        (LRUClassifier, "candidate", "identity"),
    ],
)
def test_wrong_values_of_own_parameters_are_named(cls, name, value):
    X = sequences(n=6)
    with pytest.raises((ValueError, TypeError), match=name):
        small(cls, **{name: value}).fit(X, target(cls, X))


@each_estimator
def test_every_parameter_is_tried_here(cls):
    own = {"cell", "activation", "candidate", "class_weight", "normalize_y"}
    others = own | {"random_state"}  # scikit-learn checks this one
    assert cls().get_params().keys() - others == WRONG.keys()


@each_estimator
def test_the_constructor_is_explicit_and_stores(cls):
    parameters = inspect.signature(cls).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    values = {p.name: object() for p in parameters}
    model = cls(**values)
    assert vars(model) == values
    assert model.get_params(deep=False) == values


@each_estimator
def test_numpy_numbers_are_numbers(cls):
    X = sequences(n=6)
    model = small(
        cls,
        d_s=np.int64(2),
        K=np.int32(3),
        lr=np.float32(0.01),
        max_epochs=np.int64(2),
        shuffle=np.True_,
    )
    assert model.fit(X, target(cls, X)).n_iter_ == 2


def test_defaults_of_the_two_families():
    assert (ParaRNNClassifier().d_s, ParaRNNClassifier().K) == (2, 32)
    assert (LRUClassifier().d_s, LRUClassifier().K) == (64, 1)


def test_grids_over_cells_and_sizes_compare_them_all():
    X = sequences(n=18)
    y = target(ParaRNNClassifier, X)
    search = GridSearchCV(
        small(ParaRNNClassifier, max_epochs=2),
        {"d_s": [1, 2], "K": [1, 4], "cell": ["rnn", "lstm", "gru"]},
        cv=2,
        error_score="raise",
    ).fit(X, y)
    assert len(search.cv_results_["params"]) == 12
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert clone(search.best_estimator_).get_params()["K"] in (1, 4)


def test_highway_layers_refuse_what_they_cannot_do():
    X = sequences(n=6)
    y = target(LRUClassifier, X)
    for changes in ({"bidirectional": True}, {"d_s": (1, 2, 3)}):
        with pytest.raises(ValueError, match="candidate='tanh'"):
            small(LRUClassifier, n_layers=2, **changes).fit(X, y)
        small(LRUClassifier, n_layers=2, candidate="tanh", **changes).fit(X, y)


def test_the_rules_know_the_names_of_the_tables():
    from skpararnn.estimators._base import RULES
    from skpararnn.estimators._training import LR_SCHEDULES, OPTIMIZERS
    from skpararnn.nets._recurrent import READOUTS

    outputs = [name for name in READOUTS if name != "all"]
    tables = {"optimizer": OPTIMIZERS, "lr_schedule": LR_SCHEDULES, "output": outputs}
    for name, table in tables.items():
        accepts, text = RULES[name]
        assert all(accepts(choice) for choice in table)
        assert all(repr(choice) in text for choice in table)
        assert text.count("'") == 2 * len(table)
