"""sequences_from_frame: which rows become which sequence, and what is refused."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skpararnn.preprocessing import SequenceScaler, sequences_from_frame

FRAME = pd.DataFrame(
    {
        "unit": ["b", "b", "a", "b", "a", "c"],  # rows of a and b are mixed
        "day": [1, 2, 1, 5, 3, 1],
        "heat": [20.0, 21.0, 30.0, 22.0, 31.0, 40.0],
        "load": [1, 2, 3, 4, 5, 6],
        "fails": ["no", "no", "yes", "no", "yes", "no"],
        "left": [9, 8, 7, 6, 5, 4],
    }
)
BOTH = [
    [[20, 1], [21, 2], [22, 4]],
    [[30, 3], [31, 5]],
    [[40, 6]],
]
OPTIONS = {"by": "unit", "time": "day", "features": ["heat", "load"]}


def assert_sequences(X, expected):
    assert isinstance(X, list)
    assert len(X) == len(expected)
    for x, e in zip(X, expected, strict=True):
        assert x.ndim == 2
        assert_array_equal(x, e)


def test_series_in_the_order_of_their_first_rows():
    X, y, keys = sequences_from_frame(FRAME, **OPTIONS)
    assert_sequences(X, BOTH)
    assert y is None
    assert isinstance(keys, pd.Index)
    assert list(keys) == ["b", "a", "c"]
    assert keys.name == "unit"


def test_features_default_to_all_columns_without_a_role():
    frame = FRAME.drop(columns="left")
    X, _, _ = sequences_from_frame(frame, by="unit", time="day", target="fails")
    assert_sequences(X, BOTH)


def test_features_are_in_the_order_asked_for_and_one_is_still_an_axis():
    options = OPTIONS | {"features": ["load", "heat"]}
    X, _, _ = sequences_from_frame(FRAME, **options)
    assert_sequences(X, [np.array(x)[:, ::-1] for x in BOTH])
    X, _, _ = sequences_from_frame(FRAME, **OPTIONS | {"features": "load"})
    assert_sequences(X, [np.array(x)[:, 1:] for x in BOTH])


def test_a_target_of_each_series():
    _, y, _ = sequences_from_frame(FRAME, **OPTIONS, target="fails")
    assert_array_equal(y, ["no", "yes", "no"])


def test_a_target_of_each_step():
    _, y, _ = sequences_from_frame(FRAME, **OPTIONS, target="left", per_step=True)
    assert isinstance(y, list)
    for part, expected in zip(y, [[9, 8, 6], [7, 5], [4]], strict=True):
        assert_array_equal(part, expected)


def test_targets_of_several_columns():
    frame = FRAME.assign(size=[1, 1, 2, 1, 2, 3], colour=[4, 4, 5, 4, 5, 6])
    several = ["size", "colour"]
    _, y, _ = sequences_from_frame(frame, **OPTIONS, target=several)
    assert_array_equal(y, [[1, 4], [2, 5], [3, 6]])
    _, y, _ = sequences_from_frame(frame, **OPTIONS, target=several, per_step=True)
    assert [part.shape for part in y] == [(3, 2), (2, 2), (1, 2)]


def test_missing_targets_are_equal():
    frame = FRAME.assign(fails=[np.nan, np.nan, 1.0, np.nan, 1.0, 0.0])
    _, y, _ = sequences_from_frame(frame, **OPTIONS, target="fails")
    assert_array_equal(y, [np.nan, 1, 0])


@pytest.mark.parametrize("names", [("unit", "day"), (None, None)])
def test_a_multiindex_needs_no_names(names):
    index = pd.MultiIndex.from_frame(FRAME[["unit", "day"]], names=names)
    X, _, keys = sequences_from_frame(FRAME[["heat", "load"]].set_index(index))
    assert_sequences(X, BOTH)
    assert list(keys) == ["b", "a", "c"]
    assert keys.name == names[0]


@pytest.mark.parametrize("in_index", [["unit"], ["day"], ["unit", "day"]])
def test_roles_may_be_played_by_index_levels(in_index):
    X, _, keys = sequences_from_frame(FRAME.set_index(in_index), **OPTIONS)
    assert_sequences(X, BOTH)
    assert list(keys) == ["b", "a", "c"]


def test_names_of_several_parts():
    frame = FRAME.assign(site=[1, 1, 1, 1, 2, 1]).drop(columns=["fails", "left"])
    X, _, keys = sequences_from_frame(frame, by=["site", "unit"], time="day")
    assert list(keys) == [(1, "b"), (1, "a"), (2, "a"), (1, "c")]
    assert list(keys.names) == ["site", "unit"]
    assert_sequences(X, [BOTH[0], BOTH[1][:1], BOTH[1][1:], BOTH[2]])
    indexed = frame.set_index(["site", "unit", "day"])
    X_indexed, _, keys_indexed = sequences_from_frame(indexed)
    assert_sequences(X_indexed, X)
    pd.testing.assert_index_equal(keys_indexed, keys)


def test_without_a_time_the_order_of_the_rows_counts():
    frame = FRAME.iloc[::-1]
    X, _, keys = sequences_from_frame(frame, by="unit", features=["heat", "load"])
    assert list(keys) == ["c", "a", "b"]
    assert_sequences(X, [x[::-1] for x in BOTH[::-1]])


@pytest.mark.parametrize(
    "stamps",
    [
        pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01"] * 2),
        pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-01"] * 2).tz_localize(
            "Europe/Paris"
        ),
        pd.to_timedelta([1, 2, 1, 1, 2, 1], unit="h"),
        pd.PeriodIndex(["2020-01", "2020-02", "2020-01"] * 2, freq="M"),
        ["2020-01-01", "2020-01-02", "2020-01-01"] * 2,
        [0.5, 1.5, 0.5] * 2,
    ],
    ids=["dates", "dates with zone", "durations", "periods", "text", "float"],
)
def test_every_type_of_time(stamps):
    frame = pd.DataFrame({"unit": [1, 1, 2, 3, 3, 4], "at": stamps, "x": range(6)})
    X, _, _ = sequences_from_frame(frame, by="unit", time="at")
    assert_sequences(X, [[[0], [1]], [[2]], [[3], [4]], [[5]]])
    twice = frame.assign(at=frame["at"].iloc[0])
    message = re.escape(f"series 1 has the time {stamps[0]} twice")
    with pytest.raises(ValueError, match=message):
        sequences_from_frame(twice, by="unit", time="at")


# -- types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [
        ({"a": "f4", "b": "f4"}, "f4"),
        ({"a": "f4", "b": "f8"}, "f8"),
        ({"a": "i8", "b": "f4"}, "f8"),
        ({"a": "?", "b": "u1"}, "f8"),
        ({"a": "Int64", "b": "Float32"}, "f8"),
    ],
)
def test_float32_stays_and_the_rest_becomes_float64(columns, dtype):
    frame = pd.DataFrame({"unit": [1, 1, 2], "a": [0, 1, 1], "b": [1, 0, 1]})
    X, _, _ = sequences_from_frame(frame.astype(columns), by="unit")
    assert {x.dtype for x in X} == {np.dtype(dtype)}
    assert_sequences(X, [[[0, 1], [1, 0]], [[1, 1]]])


def test_missing_values_are_kept_and_named_by_what_comes_next():
    frame = pd.DataFrame({"unit": [1, 2, 2], "a": pd.array([1, 2, None], "Int64")})
    X, _, _ = sequences_from_frame(frame, by="unit")
    assert_sequences(X, [[[1]], [[2], [np.nan]]])
    with pytest.raises(ValueError, match="NaN in sample 1, step 1, feature 0"):
        SequenceScaler().fit(X)


@pytest.mark.parametrize("kind", ["category", "object", "string"])
def test_names_of_series_of_every_type(kind):
    frame = FRAME.astype({"unit": kind, "fails": kind})
    X, y, keys = sequences_from_frame(frame, **OPTIONS, target="fails")
    assert_sequences(X, BOTH)
    assert list(y) == ["no", "yes", "no"]
    assert list(keys) == ["b", "a", "c"]


def test_the_frame_is_left_alone():
    before = FRAME.copy()
    X, y, _ = sequences_from_frame(FRAME, **OPTIONS, target="left", per_step=True)
    X[0][:], y[0][:] = -1, -1
    pd.testing.assert_frame_equal(FRAME, before)


def test_one_series_of_one_row():
    X, _, keys = sequences_from_frame(FRAME.iloc[[5]], **OPTIONS)
    assert_sequences(X, BOTH[2:])
    assert list(keys) == ["c"]


# -- what is refused -------------------------------------------------------------------

NO_SERIES = FRAME.assign(unit=[*"bba", None, *"ac"])
NO_TIME = FRAME.assign(day=[1, 2, 1, np.nan, 3, 1])
TWICE = FRAME.assign(day=[1, 2, 3, 5, 3, 1])
BACKWARDS = FRAME.assign(day=[1, 6, 1, 5, 3, 1])
DATES = FRAME.assign(heat=pd.to_datetime("2020-01-01"))
SAME_NAME = FRAME.rename(columns={"load": "heat"})
REFUSED = {
    "series missing": (NO_SERIES, {}, "the series must not be missing, as in row 3."),
    "time missing": (NO_TIME, {}, "the time of row 3 is missing."),
    "time twice": (TWICE, {}, "series a has the time 3 twice; sort the rows by time"),
    "time backwards": (BACKWARDS, {}, "series b has the time 5 after 6; sort the rows"),
    "no such series": (FRAME, {"by": "engine"}, "by names 'engine', but df has the c"),
    "no such time": (FRAME, {"time": "hour"}, "time names 'hour', but df has the colu"),
    "no such feature": (FRAME, {"features": ["heat", "x"]}, "features names 'x', but"),
    "no such target": (FRAME, {"target": "x"}, "target names 'x', but df has the colu"),
    "no features": (FRAME, {"features": []}, "df has no column left for the features"),
    "text": (FRAME, {"features": None}, "column 'fails' has the type"),
    "dates": (DATES, {}, "column 'heat' has the type datetime64"),
    "complex": (FRAME.astype({"heat": complex}), {}, "column 'heat' has the type comp"),
    "target varies": (
        FRAME,
        {"target": "left"},
        "target 'left' of series b is 9 and 8; with per_step=True each step has its",
    ),
    "one target varies": (
        FRAME,
        {"target": ["fails", "left"]},
        "target 'left' of series b is 9 and 8",
    ),
    "no series": (FRAME, {"by": None}, "by must name the column that says which"),
    "no rows": (FRAME.iloc[:0], {}, "df has no rows."),
    "same names": (SAME_NAME, {}, "df has more than one column 'heat'."),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_named(kind):
    frame, options, message = REFUSED[kind]
    with pytest.raises(ValueError, match=re.escape(message)):
        sequences_from_frame(frame, **OPTIONS | options)


def test_only_frames_are_frames():
    with pytest.raises(TypeError, match=r"df must be a pandas.DataFrame, got ndarray."):
        sequences_from_frame(FRAME.to_numpy(), by="unit")


def test_the_series_is_named_by_all_its_parts():
    frame = TWICE.assign(site=1)
    with pytest.raises(ValueError, match="series 1, a has the time 3 twice"):
        sequences_from_frame(frame, **OPTIONS | {"by": ["site", "unit"]})
