"""SequenceScaler: what enters a mean, and how X comes back."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

from skpararnn.preprocessing import SequenceScaler

# a mean over some dozen numbers is summed in another order than by NumPy
ROUNDING = {"rtol": 1e-13, "atol": 1e-13}


def ragged(n_features=3, dtype=np.float64):
    rng = np.random.default_rng(0)
    scale = 10.0 ** np.arange(n_features)
    return [
        (rng.normal(size=(n, n_features)) * scale + scale).astype(dtype)
        for n in (4, 1, 7, 2)
    ]


def padded(arrays, left=1):
    T = max(len(array) for array in arrays) + left
    X = np.full((len(arrays), T, arrays[0].shape[1]), np.nan)
    for row, array in zip(X, arrays, strict=True):
        row[left : left + len(array)] = array
    return X


def as_object_array(arrays):
    column = np.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        column[i] = array
    return column


def as_pandas(array):
    return pd.Series(array) if array.ndim == 1 else pd.DataFrame(array)


def steps_of(X):
    """All real steps of a list or padded array, one below the other."""
    steps = np.concatenate(list(X))
    return steps[~np.isnan(steps).all(axis=1)]


# -- statistics ------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, tuple, as_object_array, padded])
def test_features_are_scaled_like_all_steps_in_one_table(make):
    arrays = ragged()
    scaler = SequenceScaler().fit(make(arrays))
    reference = StandardScaler().fit(np.concatenate(arrays))
    assert_allclose(scaler.mean_, reference.mean_, **ROUNDING)
    assert_allclose(scaler.scale_, reference.scale_, **ROUNDING)
    assert_allclose(
        steps_of(scaler.transform(make(arrays))),
        reference.transform(np.concatenate(arrays)),
        **ROUNDING,
    )


def test_longer_padding_changes_no_bit():
    arrays = ragged()
    short, long = padded(arrays, left=0), padded(arrays, left=9)
    a, b = SequenceScaler().fit(short), SequenceScaler().fit(long)
    assert_array_equal(a.mean_, b.mean_)
    assert_array_equal(a.scale_, b.scale_)
    assert_array_equal(steps_of(a.transform(short)), steps_of(b.transform(long)))


def test_a_2d_array_has_one_mean_over_rows_and_columns():
    X = np.array([[1.0, 2.0, 3.0], [5.0, 7.0, 12.0]])
    scaler = SequenceScaler().fit(X)
    assert_allclose(scaler.mean_, [X.mean()], **ROUNDING)
    assert_allclose(scaler.scale_, [X.std()], **ROUNDING)
    assert_allclose(scaler.transform(X), (X - X.mean()) / X.std(), **ROUNDING)


@pytest.mark.parametrize("make", [list, padded])
def test_each_sequence_by_itself(make):
    arrays = ragged()
    answer = SequenceScaler(scope="sequence").fit_transform(make(arrays))
    for scaled, array in zip(answer, arrays, strict=True):
        expected = StandardScaler().fit_transform(array)
        assert_allclose(steps_of([scaled]), expected, **ROUNDING)


def test_each_row_by_itself():
    X = np.random.default_rng(0).normal(size=(3, 8))
    answer = SequenceScaler(scope="sequence").fit_transform(X)
    assert_allclose(answer.mean(axis=1), 0, **ROUNDING)
    assert_allclose(answer.std(axis=1), 1, **ROUNDING)


def test_scope_sequence_learns_nothing():
    X = ragged()
    a = SequenceScaler(scope="sequence").fit(X)
    b = SequenceScaler(scope="sequence").fit([x * 100 for x in X])
    for x, y in zip(a.transform(X), b.transform(X), strict=True):
        assert_array_equal(x, y)
    assert not hasattr(a, "mean_")
    assert not hasattr(a, "scale_")


@pytest.mark.parametrize("scope", ["feature", "sequence"])
def test_mean_and_spread_can_be_left_alone(scope):
    X = ragged()
    options = {"scope": scope}
    spread_only = SequenceScaler(with_mean=False, **options).fit_transform(X)
    mean_only = SequenceScaler(with_std=False, **options).fit_transform(X)
    neither = SequenceScaler(with_mean=False, with_std=False, **options)
    for array, same in zip(X, neither.fit_transform(X), strict=True):
        assert_array_equal(array, same)
    parts = [X] if scope == "feature" else [[array] for array in X]
    start = 0
    for part in parts:
        steps = np.concatenate(part)
        std = steps.std(axis=0)
        std[std == 0] = 1
        for array in part:
            assert_allclose(spread_only[start], array / std, **ROUNDING)
            assert_allclose(mean_only[start], array - steps.mean(axis=0), **ROUNDING)
            start += 1


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e8 + 0.1, -7.0, 0.0])
@pytest.mark.parametrize("scope", ["feature", "sequence"])
def test_constant_features_have_scale_one(constant, scope):
    X = np.full((20, 5000, 2), constant)  # a sum over many steps rounds
    scaler = SequenceScaler(scope=scope).fit(X)
    if scope == "feature":
        assert_array_equal(scaler.scale_, [1, 1])
    assert_allclose(scaler.transform(X), 0, atol=1e-15 * abs(constant))


def test_a_feature_that_varies_by_rounding_only_is_constant():
    values = np.array([0.3, 0.1 + 0.2, 0.1 * 3])
    assert len(set(values)) > 1
    assert_array_equal(SequenceScaler().fit(values[None, :, None]).scale_, [1.0])


def test_a_small_spread_beside_a_large_mean_is_kept():
    X = 1e6 + np.random.default_rng(0).normal(size=(10, 100, 1)) * 1e-3
    assert_allclose(SequenceScaler().fit(X).scale_, X.std(), rtol=1e-9)
    assert_allclose(SequenceScaler().fit_transform(X).std(), 1, rtol=1e-9)


def test_float32_is_summed_in_float64():
    X = np.full((1, 100_000, 1), 0.1, dtype=np.float32)
    X[0, ::2] = 0.3
    scaler = SequenceScaler().fit(X)
    exact = X.astype(np.float64)
    assert_allclose(scaler.mean_, [exact.mean()], rtol=1e-12)
    assert_allclose(scaler.scale_, [exact.std()], rtol=1e-12)


def test_float32_meets_the_mean_before_it_is_rounded():
    X = (1e6 + np.arange(16) / 16).astype(np.float32)[None, :, None]
    scaled = SequenceScaler().fit_transform(X)
    exact = X.astype(np.float64)
    expected = (exact - exact.mean()) / exact.std()
    # rounding to float32, twice; a mean in float32 would be off by 0.1
    assert_allclose(scaled, expected, rtol=2 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("unit", [1e300, 2.0**1020, 1e-300, 2.0**-1060, 1e-323])
@pytest.mark.parametrize("scope", ["feature", "sequence"])
def test_every_size_of_float64_is_scaled(unit, scope):
    X = np.array([[[1.0], [3.0], [-2.0], [4.0]]])
    scaler = SequenceScaler(scope=scope)
    answer = scaler.fit_transform(X * unit)
    # below 2.2e-308 float64 has few digits, below 1e-322 one or two
    rtol = 1e-12 if unit > 1e-307 else 0.2 if unit < 1e-320 else 1e-3
    assert_allclose(answer, (X - X.mean()) / X.std(), rtol=rtol)
    if scope == "feature":
        assert_allclose(scaler.scale_, [X.std() * unit], rtol=rtol)
        back = scaler.inverse_transform(answer)
        assert_allclose(back, X * unit, rtol=rtol)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_largest_values_do_not_overflow(dtype):
    X = np.array([[[1.0], [-1], [-1]]], dtype) * np.finfo(dtype).max
    scaler = SequenceScaler().fit(X)
    answer = scaler.transform(X)
    eps = np.finfo(dtype).eps
    assert_allclose(answer[0, :, 0], np.array([2, -1, -1]) / 2**0.5, rtol=4 * eps)
    inner = (answer * 0.99).astype(dtype)
    assert_allclose(scaler.inverse_transform(inner)[0, 0] / X[0, 0], 0.98667, rtol=1e-4)


def test_sequences_of_different_size_have_units_of_their_own():
    x = np.array([1.0, 3.0, -2.0])
    a, b = SequenceScaler(scope="sequence").fit_transform([x * 1e300, x * 1e-300])
    expected = (x - x.mean()) / x.std()
    assert_allclose(a, expected, rtol=1e-12)
    assert_allclose(b, expected, rtol=1e-12)


def test_what_cannot_be_scaled_is_named():
    scaler = SequenceScaler().fit([np.array([1e-300, 3e-300])])
    message = "sample 1, step 2, feature 0 of X is too large to be scaled: .* float64"
    with pytest.raises(ValueError, match=message):
        scaler.transform([np.zeros(1), np.array([0, 0, 1e300])])
    scaler = SequenceScaler().fit([np.array([1e300, 3e300])])
    with pytest.raises(ValueError, match="step 3, feature 0 of X is too large to be s"):
        scaler.inverse_transform(np.array([[[np.nan], [np.nan], [0], [1e300]]]))


# -- containers ------------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["feature", "sequence"])
def test_padding_stays_padding(scope):
    X = padded(ragged())
    answer = SequenceScaler(scope=scope).fit_transform(X)
    assert answer.shape == X.shape
    assert_array_equal(np.isnan(answer), np.isnan(X))


@pytest.mark.parametrize(
    ("make", "container"),
    [
        (list, list),
        (tuple, list),
        (as_object_array, np.ndarray),
        (lambda arrays: pd.Series(as_object_array(arrays)), np.ndarray),
        (lambda arrays: [as_pandas(array) for array in arrays], list),
        (lambda arrays: pd.Series([array.tolist() for array in arrays]), np.ndarray),
    ],
    ids=["list", "tuple", "object array", "Series", "pandas", "lists in a Series"],
)
@pytest.mark.parametrize("flat", [False, True])
def test_ragged_input_comes_back_ragged(make, container, flat):
    arrays = [x[:, 0] for x in ragged()] if flat else ragged()
    X = make(arrays)
    scaler = SequenceScaler().fit(X)
    for answer in (scaler.transform(X), scaler.inverse_transform(scaler.transform(X))):
        assert type(answer) is container
        assert [part.shape for part in answer] == [array.shape for array in arrays]
    for part, array in zip(answer, arrays, strict=True):
        assert_allclose(part, array, **ROUNDING)


def test_lists_may_mix_arrays_with_and_without_a_feature_axis():
    X = [np.array([1.0, 3.0]), np.array([[5.0]])]
    a, b = SequenceScaler(with_std=False).fit_transform(X)
    assert_array_equal(a, [-2, 0])
    assert_array_equal(b, [[2]])


def test_wide_frames_are_2d():
    frame = pd.DataFrame({"t0": [1, 2], "t1": [3, 4]})
    answer = SequenceScaler(with_std=False).fit_transform(frame)
    assert_array_equal(answer, [[-1.5, 0.5], [-0.5, 1.5]])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("make", [list, padded, lambda a: padded(a)[:, 1, :]])
def test_inverse_transform_gives_back_the_input(make, dtype):
    X = make(ragged())
    X = [x.astype(dtype) for x in X] if isinstance(X, list) else X.astype(dtype)
    scaler = SequenceScaler().fit(X)
    back = scaler.inverse_transform(scaler.transform(X))
    eps = np.finfo(dtype).eps
    for part, x in zip(back, X, strict=True):
        assert part.dtype == np.dtype(dtype)
        # one rounding each of difference, quotient, product and sum
        assert_allclose(part, x, rtol=4 * eps, atol=4 * eps * np.nanmax(np.abs(X[0])))


def test_inverse_transform_needs_statistics_that_are_kept():
    scaler = SequenceScaler(scope="sequence").fit(ragged())
    assert not hasattr(scaler, "inverse_transform")
    with pytest.raises(AttributeError, match="inverse_transform") as error:
        scaler.inverse_transform(ragged())
    assert "scope='feature'" in str(error.value.__cause__)


def test_read_only_memmap_is_read_and_left_alone(tmp_path):
    np.save(tmp_path / "X.npy", padded(ragged()))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    scaled = SequenceScaler().fit_transform(mapped)
    assert_array_equal(scaled, SequenceScaler().fit_transform(padded(ragged())))
    assert_array_equal(mapped, padded(ragged()))
