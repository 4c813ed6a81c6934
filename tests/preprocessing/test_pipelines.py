"""The transformers in whole pipelines of scikit-learn, searched over and split."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skpararnn.preprocessing import (
    SequencePadder,
    SequenceScaler,
    TrailingWindows,
    make_windows,
    sequences_from_frame,
)


def flatten(windows):
    return windows.reshape(len(windows), -1)


def windowed_ridge(pad="edge", **options):
    return Pipeline(
        [
            ("scale", StandardScaler()),
            ("windows", TrailingWindows(pad=pad, **options)),
            ("flatten", FunctionTransformer(flatten)),
            ("ridge", Ridge()),
        ]
    )


def echo(n=400, delay=3):
    """The target is the feature `delay` rows before: one row does not tell it."""
    x = np.random.default_rng(0).normal(size=n)
    return x[:, None], np.roll(x, delay)


def test_grid_search_finds_the_window_that_is_needed():
    X, y = echo()
    search = GridSearchCV(
        windowed_ridge(),
        {"windows__window_size": [1, 3, 4], "windows__pad": ["edge", "zero"]},
        cv=TimeSeriesSplit(3),
    )
    search.fit(X, y)
    assert search.best_params_["windows__window_size"] == 4
    assert search.best_score_ > 0.9
    of_size = dict(
        zip(
            search.cv_results_["param_windows__window_size"],
            search.cv_results_["mean_test_score"],
            strict=True,
        )
    )
    assert of_size[1] < 0.1
    assert of_size[3] < 0.1


def test_a_dilated_window_reaches_as_far():
    X, y = echo(delay=6)
    cv = TimeSeriesSplit(3)
    reaching = windowed_ridge(window_size=2, dilation=6)
    assert cross_val_score(reaching, X, y, cv=cv).mean() > 0.8  # 1 but for the edges
    too_short = windowed_ridge(window_size=2, dilation=5)
    assert cross_val_score(too_short, X, y, cv=cv).mean() < 0.1


def test_predictions_know_nothing_of_later_rows():
    X, y = echo()
    pipeline = windowed_ridge(window_size=5).fit(X[:300], y[:300])
    before = pipeline.predict(X[300:])
    for i in range(0, 99, 10):
        changed = X[300:].copy()
        changed[i + 1 :] = 1e3
        assert_array_equal(pipeline.predict(changed)[: i + 1], before[: i + 1])


def test_every_fold_gets_one_prediction_for_each_row():
    X, y = echo()
    predicted = cross_val_predict(windowed_ridge(window_size=5), X, y, cv=4)
    assert predicted.shape == y.shape


def test_full_windows_lead_to_the_same_model_as_trailing_ones():
    X, y = echo()
    trailing = TrailingWindows(4).fit_transform(X)
    full, targets, index = make_windows(
        X, y, window_size=4, horizon=0, return_index=True
    )
    model = LinearRegression().fit(flatten(full), targets)
    same = LinearRegression().fit(flatten(trailing[index]), y[index])
    assert_allclose(model.coef_, same.coef_)
    assert_allclose(model.coef_, [1, 0, 0, 0], atol=1e-10)


# -- several series in one table -------------------------------------------------------


def two_series():
    X, y = echo()
    index = pd.MultiIndex.from_product([["a", "b"], range(200)])
    return pd.DataFrame({"x": X[:, 0]}, index=index), y


@pytest.mark.parametrize("output", ["default", "pandas"])
def test_pandas_output_before_the_windows_keeps_series_apart(output):
    frame, y = two_series()
    pipeline = windowed_ridge(window_size=4)
    pipeline.named_steps["scale"].set_output(transform=output)
    pipeline.fit(frame, y)
    changed = frame.copy()
    changed.iloc[:200] += 100
    rows_of_b = slice(200, None)
    before, after = (pipeline.predict(f)[rows_of_b] for f in (frame, changed))
    # arrays have no index: then the last rows of a stand in the first windows of b
    assert np.array_equal(before, after) is (output == "pandas")


def test_groups_and_index_agree():
    frame, _ = two_series()
    transformer = TrailingWindows(4).fit(frame)
    by_index = transformer.transform(frame)
    by_groups = TrailingWindows(4).fit_transform(
        frame.to_numpy(), groups=frame.index.get_level_values(0)
    )
    assert_array_equal(by_index, by_groups)


# -- sequences -------------------------------------------------------------------------


def engines(n=40):
    """A long frame of runs of many lengths; the target is the mean of the feature."""
    rng = np.random.default_rng(0)
    runs = []
    for unit in range(n):
        level = rng.normal()
        heat = 50 + 10 * (level + 0.1 * rng.normal(size=rng.integers(3, 9)))
        run = {"unit": unit, "hour": range(len(heat)), "heat": heat, "wear": level}
        runs.append(pd.DataFrame(run))
    return pd.concat(runs, ignore_index=True)


@pytest.mark.parametrize("container", ["list", "object"])
def test_from_a_frame_to_a_search_over_lengths(container):
    X, y, keys = sequences_from_frame(
        engines(), by="unit", time="hour", target="wear", features="heat"
    )
    X = X if container == "list" else np.array(X, dtype=object)
    pipeline = make_pipeline(
        SequenceScaler(),
        SequencePadder(value=0.0),
        FunctionTransformer(flatten),
        Ridge(),
    )
    search = GridSearchCV(
        pipeline,
        {"sequencepadder__length": [1, 3], "sequencescaler__with_std": [True, False]},
        cv=GroupKFold(4),
    )
    search.fit(X, y, groups=keys)
    assert search.best_params_["sequencepadder__length"] == 3
    assert search.best_score_ > 0.95
    named = pd.Series(search.predict(X), index=keys)
    assert named.loc[7] == pytest.approx(search.predict(X[7:8])[0])


def test_scaled_padded_and_scaled_back():
    X, _, _ = sequences_from_frame(engines(), by="unit", time="hour", features="heat")
    scaler = SequenceScaler().fit(X)
    padded = SequencePadder(side="right").fit_transform(scaler.transform(X))
    back = scaler.inverse_transform(padded)
    for row, x in zip(back, X, strict=True):
        assert_allclose(row[: len(x)], x)
        assert np.isnan(row[len(x) :]).all()
