"""How the estimators read 2-D input, frames, and other input after the fit."""

import numpy as np
import pandas as pd
import pytest
from cases import ESTIMATORS, answers, ragged, sequences, small, target
from numpy.testing import assert_array_equal

from skpararnn import ParaRNNClassifier, ParaRNNRegressor

each_estimator = pytest.mark.parametrize("cls", ESTIMATORS)


def columns(X, order="oldest_first", layout="by_step"):
    """3-D sequences as the lag columns another library would hand over."""
    X = X[:, ::-1] if order == "newest_first" else X
    X = X.transpose(0, 2, 1) if layout == "by_channel" else X
    return X.reshape(len(X), -1)


@each_estimator
def test_a_row_of_a_2d_array_is_a_univariate_sequence(cls):
    X = sequences(n_features=1)
    y = target(cls, X)
    model = small(cls).fit(X[:, :, 0], y)
    assert (model.n_features_in_, model.n_channels_in_) == (6, 1)
    assert_array_equal(answers(model, X), answers(model, X[:, :, 0]))
    assert_array_equal(answers(small(cls).fit(X, y), X), answers(model, X))
    assert model.hidden_states(X[:, :, 0]).shape == (20, 6, 6)


@each_estimator
@pytest.mark.parametrize("order", ["oldest_first", "newest_first"])
@pytest.mark.parametrize("layout", ["by_step", "by_channel"])
def test_columns_of_every_layout_are_the_same_sequences(cls, order, layout):
    X = sequences()
    y = target(cls, X)
    flat = columns(X, order, layout)
    model = small(cls, n_channels=2, columns_order=order, columns_layout=layout)
    model.fit(flat, y)
    assert (model.n_features_in_, model.n_channels_in_) == (12, 2)
    expected = answers(small(cls).fit(X, y), X)
    assert_array_equal(answers(model, flat), expected)
    assert_array_equal(answers(model, X), expected)


def test_columns_must_be_a_multiple_of_the_channels():
    with pytest.raises(ValueError, match=r"5 columns.*n_channels=2"):
        small(ParaRNNRegressor, n_channels=2).fit(np.ones((4, 5)), np.arange(4))


@each_estimator
def test_frames_keep_their_names(cls):
    X = sequences(n_features=1)[:, :, 0]
    frame = pd.DataFrame(X, columns=[f"lag_{i}" for i in range(6)])
    y = target(cls, X[:, :, None])
    model = small(cls).fit(frame, y)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert_array_equal(answers(model, frame), answers(small(cls).fit(X, y), X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.iloc[:, ::-1])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


def test_mixes_are_refused_with_a_hint():
    X = sequences()
    model = small(ParaRNNClassifier).fit(X, X[:, -1, 0] > 0)
    with pytest.raises(ValueError, match=r"X is 2D.*3D array.*X\[:, :, None\]"):
        model.predict(X[:, :, 0])
    flat = small(ParaRNNClassifier).fit(X[:, :, 0], X[:, -1, 0] > 0)
    with pytest.raises(ValueError, match="expecting 1 feature"):
        flat.predict(X)
    with pytest.raises(ValueError, match="expecting 6 features"):
        flat.predict(X[:, :4, 0])


@each_estimator
def test_length_may_differ_between_fit_and_predict(cls):
    X, longer = sequences(), sequences(T=11)
    model = small(cls).fit(X, target(cls, X))
    assert len(model.predict(longer)) == 20
    assert len(model.predict(ragged(longer))) == 20


def test_a_frame_of_several_series_points_to_the_converter():
    rows = pd.MultiIndex.from_product([["a", "b"], range(5)])
    frame = pd.DataFrame({"x": np.arange(10.0)}, index=rows)
    with pytest.raises(ValueError, match="sequences_from_frame"):
        small(ParaRNNRegressor).fit(frame, [1, 2])


def test_too_many_or_too_few_targets_are_counted():
    X = sequences()
    with pytest.raises(ValueError, match=r"inconsistent.*\[20, 19\]"):
        small(ParaRNNRegressor).fit(ragged(X), np.ones(19))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@each_estimator
def test_targets_must_be_finite(cls, bad):
    X = sequences()
    y = np.where(np.arange(20) == 3, bad, np.arange(20.0) % 2)
    with pytest.raises(ValueError, match=r"Input y contains (NaN|infinity)"):
        small(cls).fit(X, y)


def test_continuous_labels_are_refused():
    X = sequences()
    with pytest.raises(ValueError, match="continuous"):
        small(ParaRNNClassifier).fit(X, X[:, -1, 0])


def test_lists_of_frames_keep_their_columns():
    X = [pd.DataFrame(x, columns=["load", "heat"]) for x in ragged(sequences())]
    model = small(ParaRNNRegressor).fit(X, np.arange(20.0))
    assert model.feature_names_in_.tolist() == ["load", "heat"]
    swapped = [x[["heat", "load"]] for x in X]
    with pytest.raises(ValueError, match=r"\['heat', 'load'\].*fitted with"):
        model.predict(swapped)
    assert_array_equal(model.predict([x.to_numpy() for x in X]), model.predict(X))
