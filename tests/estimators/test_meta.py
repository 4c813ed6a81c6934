"""Inside Pipelines, searches and meta-estimators, as users have them."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from cases import padded, ragged, sequences, small, target
from numpy.testing import assert_array_equal
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 - enables it
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skpararnn import (
    LRUClassifier,
    LRURegressor,
    ParaRNNClassifier,
    ParaRNNRegressor,
)
from skpararnn.preprocessing import SequencePadder, SequenceScaler, TrailingWindows

X = sequences(n=36)
LABELS = target(ParaRNNClassifier, X)
VALUES = target(ParaRNNRegressor, X)


def table(n=120):
    """A frame of two columns, and a target that needs three rows of the first."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(n, 2)), columns=["load", "noise"])
    return frame, frame["load"].rolling(3, min_periods=1).sum()


@pytest.mark.parametrize("cls", [ParaRNNRegressor, LRURegressor])
def test_windows_in_a_pipeline_in_a_search(cls):
    frame, y = table()
    model = Pipeline(
        [
            ("scale", StandardScaler()),
            ("windows", TrailingWindows()),
            ("net", small(cls, K=4, max_epochs=10, lr=0.03)),
        ]
    )
    search = GridSearchCV(
        model,
        {"windows__window_size": [1, 4], "net__d_s": [1, 2]},
        cv=TimeSeriesSplit(3),
        error_score="raise",
    ).fit(frame, y)
    assert search.best_params_["windows__window_size"] == 4
    assert search.score(frame, y) > 0.7
    assert search.predict(frame).shape == (120,)


@pytest.mark.parametrize("cls", [ParaRNNClassifier, LRUClassifier])
def test_lists_through_a_pipeline(cls):
    lists = ragged(X)
    y = target(cls, lists)
    scaled = make_pipeline(SequenceScaler(), small(cls)).fit(lists, y)
    assert scaled.predict_proba(lists).shape == (36, 2)
    arrays = make_pipeline(SequencePadder(), small(cls)).fit(lists, y)
    plain = small(cls).fit(lists, y)
    assert_array_equal(arrays.predict_proba(lists), plain.predict_proba(lists))


def test_pandas_output_is_harmless():
    frame, y = table(60)
    model = make_pipeline(
        StandardScaler(), TrailingWindows(4), small(ParaRNNRegressor)
    ).set_output(transform="pandas")
    expected = model.fit(frame, y).predict(frame)
    with sklearn.config_context(transform_output="pandas"):
        assert_array_equal(model.fit(frame, y).predict(frame), expected)


def test_weights_and_validation_data_are_routed():
    lists = ragged(X)
    weight = np.linspace(0, 1, 36)
    with sklearn.config_context(enable_metadata_routing=True):
        net = small(ParaRNNClassifier, early_stopping=True).set_fit_request(
            sample_weight=True, X_val=True, y_val=True
        )
        model = Pipeline(
            [("scale", SequenceScaler()), ("net", net)], transform_input=["X_val"]
        )
        model.fit(lists, LABELS, sample_weight=weight, X_val=lists, y_val=LABELS)
    scaled = SequenceScaler().fit_transform(lists)
    plain = small(ParaRNNClassifier, early_stopping=True).fit(
        scaled, LABELS, sample_weight=weight, X_val=scaled, y_val=LABELS
    )
    assert model["net"].validation_curve_ == plain.validation_curve_


@pytest.mark.parametrize(
    "scoring",
    [
        "accuracy",
        "roc_auc",
        "neg_log_loss",
        "f1_macro",
        "neg_brier_score",
    ],
)
def test_scorers_of_classifiers(scoring):
    labels = LABELS == "up"
    scores = cross_validate(
        small(ParaRNNClassifier), X, labels, cv=3, scoring=scoring, error_score="raise"
    )
    assert np.isfinite(scores["test_score"]).all()


def test_three_classes_have_a_multiclass_roc():
    y = np.digitize(VALUES, np.quantile(VALUES, [1 / 3, 2 / 3]))
    model = small(ParaRNNClassifier, max_epochs=60, lr=0.03).fit(X, y)
    assert get_scorer("roc_auc_ovr")(model, X, y) > 0.8


@pytest.mark.parametrize(
    "meta",
    [
        lambda net: VotingClassifier([("a", net), ("b", net)], voting="soft"),
        lambda net: StackingClassifier([("a", net)], LogisticRegression(), cv=2),
        lambda net: CalibratedClassifierCV(net, cv=2),
        lambda net: TunedThresholdClassifierCV(net, cv=2),
        lambda net: OneVsRestClassifier(net),
        lambda net: GridSearchCV(net, {"K": [1, 2]}, cv=2, error_score="raise"),
    ],
)
@pytest.mark.parametrize("container", [np.asarray, padded])
def test_meta_classifiers_take_3d_arrays(meta, container):
    data = container(list(X))
    model = meta(small(ParaRNNClassifier)).fit(data, LABELS)
    assert set(model.predict(data)) <= set(LABELS)


@pytest.mark.parametrize(
    "meta",
    [
        lambda net: VotingRegressor([("a", net), ("b", net)]),
        lambda net: StackingRegressor([("a", net)], RidgeCV(), cv=2),
        lambda net: AdaBoostRegressor(net, n_estimators=2, random_state=0),
        lambda net: TransformedTargetRegressor(
            net, func=np.sinh, inverse_func=np.arcsinh
        ),
    ],
)
def test_meta_regressors_take_3d_arrays(meta):
    model = meta(small(ParaRNNRegressor)).fit(X, VALUES)
    assert model.predict(X).shape == (36,)


def test_multi_output_by_wrapping_or_by_itself():
    both = np.column_stack([VALUES, -VALUES])
    wrapped = MultiOutputRegressor(small(ParaRNNRegressor)).fit(X, both)
    assert wrapped.predict(X).shape == (36, 2)
    single = small(ParaRNNRegressor).fit(X, both)
    assert single.predict(X).shape == (36, 2)
    assert np.isfinite(single.score(X, both))


def test_bagging_takes_flat_columns():
    net = small(ParaRNNClassifier, n_channels=2)
    bag = BaggingClassifier(net, n_estimators=2, random_state=0)
    flat = X.reshape(len(X), -1)
    assert set(bag.fit(flat, LABELS).predict(flat)) <= set(LABELS)


def test_halving_search_with_epochs_as_resource():
    search = HalvingGridSearchCV(
        small(ParaRNNClassifier),
        {"d_s": [1, 2], "K": [2, 4]},
        resource="max_epochs",
        min_resources=2,
        max_resources=8,
        cv=2,
        random_state=0,
        error_score="raise",
    ).fit(X, LABELS)
    assert search.best_estimator_.n_iter_ == search.best_estimator_.max_epochs
    assert search.n_resources_ == [2, 6]


def test_learning_curve():
    sizes, _, scores = learning_curve(
        small(LRUClassifier), X, LABELS, cv=2, error_score="raise"
    )
    assert scores.shape == (len(sizes), 2)
