"""Windows: which rows they hold, and which they must never hold."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import TimeSeriesSplit

from skpararnn.preprocessing import TrailingWindows, make_windows


def table(n=12, f=2, dtype=np.float64):
    return np.random.default_rng(0).normal(size=(n, f)).astype(dtype)


def slow_windows(X, window_size, dilation, pad, groups):
    """Row by row, as the definition says."""
    answer = np.empty((len(X), window_size, X.shape[1]), X.dtype)
    for i in range(len(X)):
        series = [r for r in range(len(X)) if groups[r] == groups[i]]
        place = series.index(i)
        before = {"nan": np.nan, "zero": 0, "edge": X[series[0]]}[pad]
        for j in range(window_size):
            at = place - (window_size - 1 - j) * dilation
            answer[i, j] = X[series[at]] if at >= 0 else before
    return answer


GROUPS = {
    "one": [0] * 12,
    "two": ["b"] * 7 + ["a"] * 5,
    "mixed": [3, 1, 2, 1, 3, 3, 2, 1, 1, 3, 2, 1],
    "single rows": list(range(12)),
}


@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("pad", ["nan", "edge", "zero"])
@pytest.mark.parametrize(
    ("window_size", "dilation"), [(1, 1), (3, 1), (3, 2), (1, 5), (20, 1), (4, 7)]
)
def test_windows_are_those_of_the_definition(window_size, dilation, pad, groups):
    X = table()
    windows = TrailingWindows(window_size, dilation=dilation, pad=pad)
    answer = windows.fit_transform(X, groups=groups)
    assert answer.flags.c_contiguous
    assert_array_equal(answer, slow_windows(X, window_size, dilation, pad, groups))


def test_without_groups_the_rows_are_one_series():
    X = table()
    transformer = TrailingWindows(3).fit(X)
    expected = transformer.transform(X, groups=GROUPS["one"])
    assert_array_equal(transformer.transform(X), expected)


@pytest.mark.parametrize("groups", [None, GROUPS["mixed"]], ids=["one", "mixed"])
def test_rows_to_come_never_enter_a_window(groups):
    X = table()
    transformer = TrailingWindows(4, dilation=2).fit(X)
    before = transformer.transform(X, groups=groups)
    for i in range(len(X) - 1):
        changed = X.copy()
        changed[i + 1 :] += 100
        after = transformer.transform(changed, groups=groups)
        assert_array_equal(after[: i + 1], before[: i + 1])
        assert not np.array_equal(after[i + 1], before[i + 1], equal_nan=True)


def test_other_series_never_enter_a_window():
    X, groups = table(), np.array(GROUPS["mixed"])
    transformer = TrailingWindows(5).fit(X)
    before = transformer.transform(X, groups=groups)
    for group in np.unique(groups):
        changed = np.where((groups == group)[:, None], X + 100, X)
        after = transformer.transform(changed, groups=groups)
        assert_array_equal(after[groups != group], before[groups != group])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("pad", ["nan", "edge", "zero"])
def test_floats_keep_their_type(dtype, pad):
    X = table(dtype=dtype)
    assert TrailingWindows(3, pad=pad).fit_transform(X).dtype == np.dtype(dtype)


@pytest.mark.parametrize("dtype", ["i4", "u1", "?", "f2"])
def test_other_numbers_become_float64(dtype):
    X = np.array([[0], [1], [1]]).astype(dtype)
    windows = TrailingWindows(2).fit_transform(X)
    assert windows.dtype == np.dtype("f8")
    assert_array_equal(windows[:, :, 0], [[np.nan, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize(
    "wrap",
    [
        pd.DataFrame,
        lambda X: X.tolist(),
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: X[::-1].copy()[::-1],
    ],
)
def test_every_container_of_a_table(wrap):
    X = table()
    expected = TrailingWindows(3).fit_transform(X)
    assert_array_equal(TrailingWindows(3).fit_transform(wrap(X)), expected)


def test_read_only_memmap(tmp_path):
    np.save(tmp_path / "X.npy", table())
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    windows = TrailingWindows(3).fit_transform(mapped)
    windows[:] = 0  # what comes back is the user's own
    assert_array_equal(mapped, table())


# -- series of a MultiIndex ------------------------------------------------------------


def long_frame(groups, names=("series", "time")):
    time = pd.Series(groups).groupby(groups).cumcount()
    return pd.DataFrame(
        table(len(groups)), index=pd.MultiIndex.from_arrays([groups, time], names=names)
    )


@pytest.mark.parametrize("groups", [GROUPS["two"], GROUPS["mixed"]])
@pytest.mark.parametrize("names", [("series", "time"), (None, None)])
def test_a_multiindex_says_which_rows_belong_together(groups, names):
    frame = long_frame(groups, names)
    expected = TrailingWindows(3).fit_transform(frame.to_numpy(), groups=groups)
    assert_array_equal(TrailingWindows(3).fit_transform(frame), expected)


def test_groups_win_over_the_multiindex():
    frame = long_frame(GROUPS["two"])
    answer = TrailingWindows(3).fit_transform(frame, groups=GROUPS["mixed"])
    expected = TrailingWindows(3).fit_transform(table(), groups=GROUPS["mixed"])
    assert_array_equal(answer, expected)


def test_all_levels_but_the_last_name_the_series():
    keys = [("north", 1), ("north", 2), ("south", 1)]
    index = pd.MultiIndex.from_tuples([(*key, t) for key in keys for t in range(4)])
    answer = TrailingWindows(3).fit_transform(pd.DataFrame(table(), index=index))
    expected = TrailingWindows(3).fit_transform(table(), groups=np.repeat([0, 1, 2], 4))
    assert_array_equal(answer, expected)


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([0, 1, 0, 2, 1], "series b has the time 1 after 2; sort the rows by time"),
        ([0, 1, 0, 1, 1], "series b has the time 1 twice; .* keep one row for each"),
        ([0, 1, 0, None, 1], "time of row 3 is missing"),
    ],
)
def test_times_of_a_multiindex_increase(time, message):
    index = pd.MultiIndex.from_arrays([list("aabbb"), time])
    frame = pd.DataFrame(table(5), index=index)
    for cut in (
        TrailingWindows(3).fit_transform,
        lambda X: make_windows(X, window_size=2),
    ):
        with pytest.raises(ValueError, match=message):
            cut(frame)


# -- what is no table ------------------------------------------------------------------


def with_value(value):
    X = table()
    X[3, 1] = value
    return X


NAMED = pd.DataFrame(with_value(np.nan), columns=["heat", "load"])
REFUSED = {
    "NaN": (
        with_value(np.nan),
        ValueError,
        "contains NaN in row 3, column 1. Fill mis",
    ),
    "NaN in a frame": (NAMED, ValueError, "contains NaN in row 3, column load"),
    "a row of NaN": ([[1.0], [np.nan]], ValueError, "NaN in row 1, column 0"),
    "infinity": (with_value(-np.inf), ValueError, "infinity in row 3, column 1"),
    "missing": (
        pd.DataFrame({"a": pd.array([1, None], "Int64")}),
        ValueError,
        "contains NaN in row 1, column a",
    ),
    "text": (
        pd.DataFrame({"day": ["mo", "tu"]}),
        ValueError,
        "column 'day' has the ty",
    ),
    "dates": (
        pd.DataFrame({"x": [1.0, 2], "day": pd.date_range("2020-01-01", periods=2)}),
        ValueError,
        "column 'day' has the type datetime64.* cannot be a feature",
    ),
    "array of dates": (np.zeros((3, 1), "M8[D]"), TypeError, "X holds dates"),
    "complex": (table() * 1j, ValueError, "Complex data not supported"),
    "masked": (np.ma.array(table()), TypeError, "X is a masked array"),
    "list of tables": (
        [table(), table(5)],
        ValueError,
        "list of unequal rows or of se",
    ),
    "unequal rows": ([[1, 2], [3]], ValueError, "list of unequal rows or of several"),
    "1D": (table()[:, 0], ValueError, "Expected 2D array, got 1D array"),
    "3D": (np.ones((2, 2, 2)), ValueError, "dim 3"),
    "no rows": (np.ones((0, 2)), ValueError, r"0 sample\(s\)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_table_is_refused_by_name(kind):
    X, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        TrailingWindows(2).fit(X)
    with pytest.raises(error, match=message):
        make_windows(X, window_size=1, horizon=0)
    if isinstance(X, np.ndarray) and X.shape == table().shape:
        with pytest.raises(error, match=message):
            TrailingWindows(2).fit(table()).transform(X)


WRONG_GROUPS = {
    "too few": (["a"] * 5, "groups has 5 entries, X has 12 rows"),
    "2D": (np.zeros((12, 1)), "groups must be 1D, one name for each row; got 2D"),
    "text": ("abc", "groups must be 1D"),
    "missing": ([None, *"abcdefghijk"], "groups must not be missing, as in row 0"),
    "NaN": ([*range(11), np.nan], "groups must not be missing, as in row 11"),
}


@pytest.mark.parametrize("kind", WRONG_GROUPS)
def test_wrong_groups_are_refused(kind):
    groups, message = WRONG_GROUPS[kind]
    with pytest.raises(ValueError, match=message):
        TrailingWindows(2).fit_transform(table(), groups=groups)
    with pytest.raises(ValueError, match=message):
        make_windows(table(), window_size=2, groups=groups)


# -- full windows with their targets ---------------------------------------------------


@pytest.mark.parametrize("groups", [None, *GROUPS.values()], ids=["None", *GROUPS])
@pytest.mark.parametrize("horizon", [0, 1, 3])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("window_size", [1, 2])
def test_full_windows_are_those_of_the_definition(window_size, horizon, stride, groups):
    X, y = table(), np.arange(12) * 10
    expected = {}
    for key in set(groups or [0]):
        rows = [r for r in range(12) if groups is None or groups[r] == key]
        starts = range(0, len(rows) - window_size - horizon + 1, stride)
        for start in starts:
            target = rows[start + window_size - 1 + horizon]
            expected[target] = X[rows[start : start + window_size]]
    options = {
        "window_size": window_size,
        "horizon": horizon,
        "stride": stride,
        "groups": groups,
    }
    if not expected:
        with pytest.raises(ValueError, match="no window fits: the longest series has"):
            make_windows(X, **options)
        return
    windows, targets, index = make_windows(X, y, return_index=True, **options)
    assert_array_equal(index, sorted(expected))
    assert_array_equal(windows, [expected[row] for row in sorted(expected)])
    assert_array_equal(targets, y[index])


def test_what_is_returned_is_what_was_asked_for():
    X, y = table(), np.arange(12)
    windows = make_windows(X, window_size=3)
    assert windows.shape == (9, 3, 2)
    both = make_windows(X, y, window_size=3)
    index = make_windows(X, window_size=3, return_index=True)
    assert_array_equal(both[0], windows)
    assert_array_equal(both[1], index[1])
    assert len(both) == len(index) == 2


def test_full_windows_are_the_trailing_ones_of_their_rows():
    X = table()
    trailing = TrailingWindows(4).fit_transform(X)
    windows, index = make_windows(X, window_size=4, horizon=2, return_index=True)
    assert_array_equal(windows, trailing[index - 2])


def test_without_a_horizon_the_last_window_ends_with_the_last_row():
    X = table()
    assert_array_equal(make_windows(X, window_size=3, horizon=0)[-1], X[-3:])


@pytest.mark.parametrize(
    "y",
    [
        np.arange(12.0),
        [f"label {i}" for i in range(12)],
        pd.Series(range(12), index=range(100, 112)),
        np.arange(24).reshape(12, 2),
        pd.DataFrame({"a": range(12), "b": range(12)}),
    ],
    ids=["array", "text", "Series", "2D", "frame"],
)
def test_targets_of_every_kind_are_taken_by_position(y):
    _, targets, index = make_windows(table(), y, window_size=3, return_index=True)
    assert_array_equal(targets, np.asarray(y)[index])


def test_frames_keep_nothing_but_their_order():
    frame = pd.DataFrame(table(), index=range(100, 88, -1), columns=["a", "b"])
    expected = make_windows(table(), window_size=3)
    assert_array_equal(make_windows(frame, window_size=3), expected)


def test_full_windows_never_cross_the_series_of_a_multiindex():
    frame = long_frame(GROUPS["mixed"])
    y = np.arange(12)
    of_index = make_windows(frame, y, window_size=2, horizon=1)
    of_groups = make_windows(table(), y, window_size=2, groups=GROUPS["mixed"])
    for a, b in zip(of_index, of_groups, strict=True):
        assert_array_equal(a, b)


def test_short_series_have_no_window():
    groups = ["long"] * 8 + ["short"] * 4
    windows, index = make_windows(
        table(), window_size=4, groups=groups, return_index=True
    )
    assert_array_equal(index, [4, 5, 6, 7])
    assert windows.shape == (4, 4, 2)


@pytest.mark.parametrize("horizon", [1, 2, 5])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_the_gap_of_the_docstring_leaves_no_target_unknown(horizon, stride):
    """Training targets must be known when the first test window ends, and no sooner."""
    options = {"window_size": 3, "horizon": horizon, "stride": stride}
    windows, index = make_windows(table(60), return_index=True, **options)
    gap = -(-horizon // stride) - 1
    for train, test in TimeSeriesSplit(3, gap=gap).split(windows):
        assert index[train].max() <= index[test[0]] - horizon
    if gap:
        for train, test in TimeSeriesSplit(3, gap=gap - 1).split(windows):
            assert index[train].max() > index[test[0]] - horizon


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_size": 0}, "window_size must be an integer of at least 1, got 0"),
        ({"window_size": 2, "horizon": -1}, "horizon must be an integer of at least 0"),
        ({"window_size": 2, "horizon": 1.0}, "horizon must be an integer"),
        ({"window_size": 2, "stride": 0}, "stride must be an integer of at least 1"),
        ({"window_size": 10, "horizon": 3}, "longest series has 12 rows, .* need 13."),
        ({"window_size": 2, "y": np.ones(11)}, "X has 12 rows, y has the shape (11,)"),
        ({"window_size": 2, "y": 3}, "must have the same length: X has 12 rows, y has"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    pattern = re.escape(message).replace(r"\.\*", ".*")
    with pytest.raises(ValueError, match=pattern):
        make_windows(table(), **options)


def test_missing_targets_are_passed_on():
    y = pd.Series(np.arange(12.0)).shift(-2)
    _, targets = make_windows(table(), y, window_size=3, horizon=0)
    assert_array_equal(targets, y[2:])
