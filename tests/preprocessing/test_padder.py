"""SequencePadder: where steps go, and which are dropped."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpararnn.preprocessing import SequencePadder
from skpararnn.utils._sequences import check_sequences

NAN = np.nan
LENGTHS = (3, 1, 5)


def ragged(n_features=2, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, n_features)).astype(dtype) for n in LENGTHS]


def slow_padding(arrays, length, side, value, truncate):
    rows = []
    for array in arrays:
        if len(array) > length:
            array = array[-length:] if truncate == "left" else array[:length]
        fill = np.full((length - len(array), array.shape[1]), value)
        rows.append(np.concatenate([fill, array] if side == "left" else [array, fill]))
    return np.stack(rows)


@pytest.mark.parametrize("length", [1, 3, 4, 5, 9])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("truncate", ["left", "right"])
@pytest.mark.parametrize("value", [NAN, 0.0, -1])
def test_steps_are_where_the_definition_says(length, side, truncate, value):
    padder = SequencePadder(length, side=side, value=value, truncate=truncate)
    answer = padder.fit_transform(ragged())
    assert padder.length_ == length
    assert_array_equal(answer, slow_padding(ragged(), length, side, value, truncate))


def test_none_takes_the_longest_of_fit():
    padder = SequencePadder().fit(ragged())
    assert padder.length_ == 5
    assert padder.transform(ragged()[:2]).shape == (2, 5, 2)


@pytest.mark.parametrize(("truncate", "end"), [("left", "first"), ("right", "last")])
def test_none_warns_where_it_cuts(truncate, end):
    padder = SequencePadder(truncate=truncate).fit(ragged()[:2])
    message = (
        f"1 of 3 sequences are longer than the 3 steps .* lose their {end} steps "
        r"\(the longest has 5\); length='batch' keeps"
    )
    with pytest.warns(UserWarning, match=message) as record:
        answer = padder.transform(ragged())
    assert record[0].filename == __file__
    assert_array_equal(answer, slow_padding(ragged(), 3, "left", NAN, truncate))


def test_a_length_that_was_asked_for_cuts_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert SequencePadder(2).fit_transform(ragged()).shape == (3, 2, 2)


def test_batch_takes_the_longest_of_each_call():
    padder = SequencePadder("batch").fit(ragged()[:2])
    assert padder.length_ is None
    assert padder.transform(ragged()).shape == (3, 5, 2)
    assert padder.transform(ragged()[1:2]).shape == (1, 1, 2)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, 2.0], [3.0, 4.0]]),
        np.array([[[1.0], [2.0]], [[3.0], [4.0]]]),
        [np.array([1, 2]), np.array([3, 4])],
        pd.Series([[1, 2], [3, 4]]),
        pd.DataFrame({"t0": [1, 3], "t1": [2, 4]}),
    ],
    ids=["2D", "3D", "list", "Series", "frame"],
)
def test_every_container_becomes_3d(X):
    expected = [[[NAN], [1], [2]], [[NAN], [3], [4]]]
    assert_array_equal(SequencePadder(3).fit_transform(X), expected)


def test_padding_of_the_input_is_no_data():
    X = SequencePadder(9, side="right").fit_transform(ragged())
    moved = SequencePadder().fit_transform(X)  # 9 steps are left, but only 5 are real
    assert_array_equal(moved, SequencePadder().fit_transform(ragged()))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("n_features", [1, 3])
def test_padded_with_nan_and_read_is_what_it_was(side, n_features):
    X = ragged(n_features)
    read = check_sequences(
        SequencePadder(7, side=side).fit_transform(X), dtype="float64"
    )
    assert_array_equal(read.lengths, LENGTHS)
    assert_array_equal(read.values, np.concatenate(X))


def test_what_comes_back_is_the_users_own():
    X = np.ones((2, 3, 1))
    SequencePadder().fit_transform(X)[:] = 0
    assert_array_equal(X, 1)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.float32("inf"), True, "0", None])
def test_padding_is_finite_or_nan(value):
    with pytest.raises(ValueError, match="value must be a finite number or NaN"):
        SequencePadder(value=value).fit(ragged())
