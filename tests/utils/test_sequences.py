"""How X is read: every kind of input, what is refused, and the way back."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from numpy.testing import assert_array_equal

from skpararnn.utils._sequences import all_finite, check_sequences

LENGTHS = (3, 1, 5, 2)
LONGEST = max(LENGTHS)


def make_list(n_features=2, lengths=LENGTHS, dtype=np.float64):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, n_features)).astype(dtype) for n in lengths]


def pad(arrays, left, n_timesteps):
    """A 3-D array with `left[i]` steps of NaN before sequence i, the rest behind."""
    padded = np.full((len(arrays), n_timesteps, arrays[0].shape[1]), np.nan)
    for row, array, before in zip(padded, arrays, left, strict=True):
        row[before : before + len(array)] = array
    return padded


def as_object_array(arrays):
    column = np.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        column[i] = array
    return column


def assert_same_sequences(sequences, arrays):
    assert len(sequences) == len(arrays)
    assert_array_equal(sequences.lengths, [len(array) for array in arrays])
    for i, array in enumerate(arrays):
        assert_array_equal(sequences[i], array)


# -- kinds of input --------------------------------------------------------------------

RAGGED = {
    "list": list,
    "tuple": tuple,
    "object array": as_object_array,
    "Series": lambda arrays: pd.Series(as_object_array(arrays), index=list("wxyz")),
    "frames": lambda arrays: [pd.DataFrame(a, columns=["a", "b"]) for a in arrays],
    "list and arrays": lambda arrays: [arrays[0].tolist(), *arrays[1:]],
    "cells that hold lists": lambda arrays: pd.Series([a.tolist() for a in arrays]),
}


@pytest.mark.parametrize("kind", RAGGED)
def test_ragged_input_is_kept_flat(kind):
    arrays = make_list()
    sequences = check_sequences(RAGGED[kind](arrays), dtype="float64")
    assert_same_sequences(sequences, arrays)
    is_list = kind in ("list", "tuple", "frames", "list and arrays")
    assert sequences.container == ("list" if is_list else "object")
    assert sequences.n_timesteps is None
    assert sequences.n_features == 2
    assert_array_equal(sequences.starts, [0, 0, 0, 0])


@pytest.mark.parametrize("wrap", [list, as_object_array, pd.Series])
def test_1d_arrays_are_sequences_of_one_feature(wrap):
    arrays = [np.array([1.0, 2.0]), np.array([3.0]), np.array([4.0, 5.0, 6.0])]
    sequences = check_sequences(wrap(arrays))
    assert_same_sequences(sequences, [array[:, None] for array in arrays])


def test_arrays_of_equal_length_stay_a_list():
    sequences = check_sequences([np.ones(4), np.zeros(4)])
    assert sequences.container == "list"
    assert sequences.n_features == 1


def test_one_sequence_of_one_step():
    assert_same_sequences(check_sequences([np.array([[7.0, 8.0]])]), [[[7, 8]]])
    assert_same_sequences(check_sequences(np.array([[[7.0, 8.0]]])), [[[7, 8]]])
    assert_same_sequences(check_sequences(np.array([[7.0]])), [[[7]]])


def test_nested_lists_of_numbers_are_arrays():
    rows = check_sequences([[1, 2, 3], [4, 5, 6]])
    assert (rows.container, rows.n_features, rows.n_timesteps) == ("2d", 1, 3)
    cube = check_sequences([[[1, 2]], [[3, 4]]])
    assert (cube.container, cube.n_features, cube.n_timesteps) == ("3d", 2, 1)


@pytest.mark.parametrize(
    "wrap",
    [np.asarray, pd.DataFrame, lambda a: a.tolist(), lambda a: a.astype(object)],
)
def test_rows_of_2d_input_are_sequences(wrap):
    X = np.arange(6.0).reshape(2, 3)
    sequences = check_sequences(wrap(X))
    assert sequences.container == "2d"
    assert_same_sequences(sequences, X[:, :, None])


def test_frame_with_nullable_columns():
    frame = pd.DataFrame({"a": pd.array([1, 2], "Int64"), "b": [0.5, 1.5]})
    assert_same_sequences(check_sequences(frame), [[[1], [0.5]], [[2], [1.5]]])


# -- columns as steps of several features ----------------------------------------------

STEPS = np.array([[[1, 10], [2, 20], [3, 30]], [[4, 40], [5, 50], [6, 60]]])
COLUMNS = {
    ("oldest_first", "by_step"): [[1, 10, 2, 20, 3, 30], [4, 40, 5, 50, 6, 60]],
    ("oldest_first", "by_channel"): [[1, 2, 3, 10, 20, 30], [4, 5, 6, 40, 50, 60]],
    ("newest_first", "by_step"): [[3, 30, 2, 20, 1, 10], [6, 60, 5, 50, 4, 40]],
    ("newest_first", "by_channel"): [[3, 2, 1, 30, 20, 10], [6, 5, 4, 60, 50, 40]],
}


@pytest.mark.parametrize(("order", "layout"), COLUMNS)
def test_columns_in_every_order(order, layout):
    X = np.array(COLUMNS[order, layout], dtype=float)
    options = {"n_channels": 2, "columns_order": order, "columns_layout": layout}
    sequences = check_sequences(X, **options)
    assert_same_sequences(sequences, STEPS)
    assert sequences.n_timesteps == 3

    X[1, 4] = np.nan
    step, feature = np.argwhere(STEPS[1] == COLUMNS[order, layout][1][4])[0]
    where = rf"sample 1, step {step}, feature {feature} \(column 4\)"
    with pytest.raises(ValueError, match=f"contains NaN in {where}"):
        check_sequences(X, **options)


def test_layout_options_leave_3d_input_alone():
    options = {"n_channels": 5, "columns_order": "newest_first"}
    assert_same_sequences(check_sequences(STEPS, **options), STEPS)


def test_columns_that_cannot_be_divided():
    with pytest.raises(ValueError, match="6 columns, which is no multiple of n_chann"):
        check_sequences(np.ones((2, 6)), n_channels=4)


# -- padding ---------------------------------------------------------------------------

LEFT = {
    "right": [0, 0, 0, 0],
    "left": [LONGEST - n for n in LENGTHS],
    "both": [1, 3, 0, 2],
}


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("side", LEFT)
def test_padding_does_not_exist(side, n_features):
    arrays = make_list(n_features)
    X = pad(arrays, LEFT[side], LONGEST)
    sequences = check_sequences(X, dtype="float64")
    assert_same_sequences(sequences, arrays)
    assert_array_equal(sequences.starts, LEFT[side])
    assert_array_equal(sequences.unflatten(sequences.values), X)


def test_longer_padding_changes_nothing_but_the_starts():
    arrays = make_list()
    short = check_sequences(pad(arrays, LEFT["right"], LONGEST))
    long = check_sequences(pad(arrays, [7, 8, 9, 0], 20))
    assert_array_equal(short.values, long.values)
    assert_array_equal(short.offsets, long.offsets)
    assert_array_equal(long.starts, [7, 8, 9, 0])


def test_a_step_with_one_number_is_real():
    X = np.ones((1, 3, 2))
    X[0, 0, 1] = np.nan  # not all features: no padding, so a missing value
    with pytest.raises(ValueError, match="NaN in sample 0, step 0, feature 1"):
        check_sequences(X)


@pytest.mark.parametrize(
    ("sample", "steps", "feature", "named"),
    [
        (1, 3, 0, "sample 1, step 3, feature 0"),
        (1, 3, slice(None), "sample 1, step 3, feature 0"),  # a gap is no padding
        (2, slice(2, 4), 1, "sample 2, step 2, feature 1"),
    ],
)
def test_missing_values_are_named_in_the_steps_of_the_input(
    sample, steps, feature, named
):
    X = pad(make_list(lengths=(5, 4, 5)), [0, 1, 2], 7)  # sample 1 starts at step 1
    X[sample, steps, feature] = np.nan
    with pytest.raises(ValueError, match=f"contains NaN in {named}. Only steps at"):
        check_sequences(X)


def test_infinity_is_named_in_the_steps_of_the_input():
    X = pad(make_list(), LEFT["left"], LONGEST)
    X[3, 4, 1] = -np.inf
    with pytest.raises(ValueError, match=r"infinity .* in sample 3, step 4, feature 1"):
        check_sequences(X)


def test_padding_is_no_excuse_for_infinity():
    X = pad(make_list(), LEFT["left"], LONGEST)
    X[1, 0] = [np.nan, np.inf]
    with pytest.raises(ValueError, match="in sample 1, step 0, feature 0"):
        check_sequences(X)


def test_a_value_that_float32_cannot_hold():
    X = np.ones((2, 3, 1))
    X[1, 2] = 1e300
    with pytest.raises(ValueError, match="too large for float32 in sample 1, step 2"):
        check_sequences(X)
    assert check_sequences(X, dtype="float64").values.max() == 1e300


def test_2d_input_knows_no_padding():
    X = np.ones((2, 3))
    X[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"\(column 2\). 2D .* X\[:, :, None\]"):
        check_sequences(X)


@pytest.mark.parametrize("wrap", [list, as_object_array])
def test_ragged_input_knows_no_padding(wrap):
    arrays = make_list()
    arrays[2][4] = np.nan
    with pytest.raises(ValueError, match=r"NaN in sample 2, step 4, feature 0\. Seque"):
        check_sequences(wrap(arrays))


# -- types and memory ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", "i1", "u8", "i8", "?", "O"])
def test_every_type_of_number_is_cast_once(dtype):
    X = np.array([[[0.0], [1.0]], [[1.0], [1.0]]]).astype(dtype)
    for container in (X, list(X)):
        sequences = check_sequences(container)
        assert sequences.values.dtype == np.dtype("float32")
        assert_array_equal(sequences.values, [[0], [1], [1], [1]])


@pytest.mark.parametrize(
    ("given", "kept"),
    [("f4", "f4"), ("f8", "f8"), ("f2", "f8"), ("i4", "f8"), ("?", "f8")],
)
def test_without_a_dtype_float32_stays(given, kept):
    X = np.ones((3, 4, 2), dtype=given)
    assert check_sequences(X, dtype=None).values.dtype == np.dtype(kept)
    assert check_sequences(list(X), dtype=None).values.dtype == np.dtype(kept)


def test_without_a_dtype_mixed_lists_are_float64():
    X = [np.ones(2, dtype="f4"), np.ones(2, dtype="f8")]
    assert check_sequences(X, dtype=None).values.dtype == np.dtype("f8")


def test_values_are_contiguous_whatever_the_input():
    base = np.random.default_rng(0).normal(size=(4, 6, 8))
    inputs = {
        "every other": base[:, ::2, ::2],
        "backwards": base[::-1, ::-1],
        "transposed": base.transpose(0, 2, 1),
        "fortran": np.asfortranarray(base),
    }
    for X in inputs.values():
        sequences = check_sequences(X, dtype="float64")
        assert sequences.values.flags.c_contiguous
        assert_same_sequences(sequences, X)


def test_no_copy_where_none_is_needed():
    X = np.ones((3, 4, 2), dtype=np.float32)
    assert np.shares_memory(check_sequences(X).values, X)


@pytest.mark.parametrize("padded", [False, True])
def test_read_only_memmap_is_read_and_left_alone(tmp_path, padded):
    arrays = make_list(lengths=(4, 4), dtype=np.float32)
    X = pad(arrays, [1, 0], 5 if padded else 4) if padded else np.stack(arrays)
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    sequences = check_sequences(mapped)
    assert_same_sequences(sequences, arrays)
    assert_array_equal(mapped, X)


@pytest.mark.parametrize(
    "make", [lambda: np.ones((2, 3)), lambda: make_list(), lambda: STEPS.copy()]
)
def test_input_is_never_written_to(make):
    X, before = make(), make()
    sequences = check_sequences(X)
    sequences.padded([0, 1])
    sequences.unflatten(sequences.values)
    for now, then in zip(X, before, strict=True):
        assert_array_equal(now, then)


# -- what is no batch of sequences -----------------------------------------------------

EMPTY = np.empty((0, 2))
MULTI_INDEX = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
REFUSED = {
    "None": (None, ValueError, "X is None; expected an array of shape"),
    "text": ("abc", TypeError, "X is a str; expected"),
    "dict": ({"a": [1]}, TypeError, "X is a dict; expected"),
    "generator": ((x for x in make_list()), TypeError, "X is a generator; expected"),
    "scalar": (3.0, ValueError, "scalar array"),
    "1D": (np.ones(3), ValueError, "Expected 2D array, got 1D array"),
    "4D": (np.ones((1, 2, 3, 4)), ValueError, r"4 dimensions, \(1, 2, 3, 4\); expect"),
    "no samples": (np.ones((0, 3, 2)), ValueError, r"0 sample\(s\)"),
    "no steps": (np.ones((2, 0, 2)), ValueError, "at least 1 time step and 1 feature"),
    "no features": (np.ones((2, 3, 0)), ValueError, "at least 1 time step and 1 feat"),
    "no columns": (np.ones((2, 0)), ValueError, r"0 feature\(s\)"),
    "empty list": ([], ValueError, "X is an empty list: 0 samples"),
    "sparse": (scipy.sparse.csr_array(np.eye(3)), TypeError, "X is sparse"),
    "dict of keys": (scipy.sparse.dok_matrix((3, 3)), TypeError, "X is sparse"),
    "complex": (np.ones((2, 2)) * 1j, ValueError, "Complex data not supported: X"),
    "complex 3D": (np.ones((2, 2, 2)) * 1j, ValueError, "Complex data not supported"),
    "dates": (np.zeros((2, 2), "M8[D]"), TypeError, "X holds dates"),
    "masked": (np.ma.ones((2, 2, 1)), TypeError, "X is a masked array"),
    "words": ([["a", "b"], ["c", "d"]], ValueError, "bytes/strings"),
    "values of a dict": ({"a": [1]}.values(), TypeError, "X is a dict_values; expect"),
    "generators": ([(x for x in [1])] * 2, ValueError, "sample 0 of X is a generator"),
    "nothing but None": ([None, None], ValueError, "sample 0 of X is None; a sequence"),
    "columns of a MultiIndex": (
        pd.DataFrame([[1, 2]], columns=MULTI_INDEX),
        ValueError,
        "the columns of X have a MultiIndex",
    ),
    "rows of unequal length": ([[1, 2], [3]], ValueError, "rows differ in length"),
    "lists of arrays": ([[np.ones(2)], [np.ones(3)]], ValueError, "rows differ"),
    "MultiIndex": (
        pd.DataFrame({"a": [1, 2]}, index=MULTI_INDEX),
        ValueError,
        "sequences_from_frame",
    ),
    "only padding": (np.full((1, 3, 2), np.nan), ValueError, "sample 0 .* all of its"),
}
REFUSED_SAMPLES = {
    "no steps": (EMPTY, ValueError, "sample 1 of X is an empty sequence"),
    "no features": (np.ones((3, 0)), ValueError, "sample 1 of X has 0 features"),
    "3D": (np.ones((1, 2, 2)), ValueError, r"sample 1 of X has 3 dim.* \(1, 2, 2\)"),
    "number": (np.float64(3), ValueError, "sample 1 of X is a number; a seq"),
    "None": (None, ValueError, "sample 1 of X is None; a sequence is a 1D array"),
    "dict": ({"a": 1}, ValueError, "sample 1 of X is a dict; a sequence"),
    "text": (np.array([["a", "b"]]), ValueError, "sample 1 of X cannot be read as a n"),
    "steps of unequal length": ([[1, 2], [3]], ValueError, "sample 1 of X cannot be"),
    "other features": (np.ones((2, 3)), ValueError, "0 has 2 features, sample 1 has 3"),
    "complex": (np.ones((2, 2)) * 1j, ValueError, "not supported: sample 1 of X"),
    "dates": (np.zeros((2, 2), "m8[s]"), TypeError, "sample 1 of X holds dates"),
    "masked": (np.ma.ones((2, 2)), TypeError, "sample 1 of X is a masked array"),
}


UNEQUAL = {
    "rows": ([[1, 2], [3, 4], [5]], "sample 2 has the length 1, sample 0 has the leng"),
    "a number": ([[1, 2], 3], "sample 1 is a single value, sample 0 has the length 2"),
    "steps": (
        [[[1, 2], [3, 4]], [[5, 6], [7]]],
        "sample 1, step 1 has the length 1, sample 0, step 0 has the length 2",
    ),
    "arrays": (
        [[np.ones(2)], [np.ones(3)]],
        "sample 1, step 0 has the length 3, sample 0, step 0 has the length 2",
    ),
    "steps of a sample": (
        [np.ones((2, 2)), [[1, 2], [3]]],
        "sample 1 of X .*: step 1 has the length 1, step 0 has the length 2",
    ),
}


@pytest.mark.parametrize("kind", UNEQUAL)
def test_the_first_row_of_another_length_is_named(kind):
    X, message = UNEQUAL[kind]
    with pytest.raises(ValueError, match=message):
        check_sequences(X)


def with_cell(cell, shape=(2, 3)):
    X = np.ones(shape, dtype=object)
    X[(1, 2, 0)[: len(shape)]] = cell
    return X


def with_column(column):
    return pd.DataFrame({"u": [1, 2], "v": column})


AT_2D = r"sample 1, step 2, feature 0 \(column 2\) of X is "
AT_3D = r"sample 1, step 2, feature 0 of X is "
AT_FRAME = r"sample 0, step 1, feature 0 \(column 'v'\) of X is "
AT_SAMPLE = r"sample 0 of X cannot be read as a numeric array .*: step 1, feature 2 is "
NO_NUMBERS = {
    "text": (with_cell("a"), ValueError, AT_2D + "'a'.*: could not convert string"),
    "text 3D": (with_cell("a", (2, 3, 2)), ValueError, AT_3D + "'a'.*could not conv"),
    "array of text": (
        np.array([["1", "x"]]),
        ValueError,
        r"\(column 1\) of X is 'x'.*: dtype='numeric' is not compatible",
    ),
    "digits": (np.array([["1"]]), ValueError, r"\(column 0\) of X is '1'.*bytes/str"),
    "dict": (with_cell({"a": 1}), TypeError, AT_2D + ".*argument must be a string or"),
    "integer": (with_cell(10**400), ValueError, AT_2D + r"10+\.\.\. \(401 char"),
    "long integer": (with_cell(10**5000), ValueError, AT_2D + "a very large int"),
    "pandas.NA": (with_cell(pd.NA), TypeError, AT_2D + "<NA>"),
    "array in a cell": (with_cell(np.ones(2)), ValueError, AT_2D + "an array of shape"),
    "complex": (with_cell(1j), TypeError, AT_2D + "1j"),
    "frame": (with_column(["a", "3"]), ValueError, AT_FRAME + "'a'.*could not conver"),
    "frame of strings": (
        with_column(pd.array(["a", "3"], "string")),
        ValueError,
        AT_FRAME + "'a'.*could not convert",
    ),
    "frame of dates": (
        with_column(pd.date_range("2020-01-01", periods=2)),
        TypeError,
        AT_FRAME + "Timestamp",
    ),
    "frame of dates with a zone": (
        with_column(pd.date_range("2020-01-01", periods=2, tz="UTC")),
        TypeError,
        AT_FRAME + "Timestamp",
    ),
    "frame of categories": (
        with_column(pd.Categorical(["a", "b"])),
        ValueError,
        AT_FRAME + "'a'",
    ),
    "frame of arrays": (
        with_column([np.ones(2), np.ones(2)]),
        ValueError,
        AT_FRAME + r"an array of shape \(2,\)",
    ),
    "sample": ([with_cell("a")], ValueError, AT_SAMPLE + "'a'.*could not convert"),
    "sample of integers": ([with_cell(10**400)], ValueError, AT_SAMPLE + "10+"),
    "sample of text": (
        [np.array(["1", "x"])],
        ValueError,
        "sample 0 of X .*: step 1 is 'x'",
    ),
    "frame in a list": (
        [with_column(["3", "b"])],
        ValueError,
        r"sample 0 of X .*: step 1, feature 1 \(column 'v'\) is 'b'",
    ),
}


@pytest.mark.parametrize("kind", NO_NUMBERS)
def test_what_is_no_number_is_named_with_its_place(kind):
    X, error, message = NO_NUMBERS[kind]
    with pytest.raises(error, match=message) as caught:
        check_sequences(X)
    assert caught.type is error


def test_text_is_named_in_the_steps_of_its_column():
    options = {"n_channels": 2, "columns_layout": "by_channel"}
    message = r"sample 1, step 2, feature 0 \(column 2\) of X is 'a'"
    with pytest.raises(ValueError, match=message):
        check_sequences(with_cell("a", (2, 6)), **options)


def test_missing_values_of_a_frame_are_named_by_column():
    with pytest.raises(ValueError, match=r"NaN in sample 0, step 1, .*\(column 'v'\)"):
        check_sequences(with_column([np.nan, 1]))


def test_tensors_are_read_but_not_their_gradients():
    torch = pytest.importorskip("torch")
    x = torch.ones(2, 3)
    assert_array_equal(check_sequences(x).lengths, [3, 3])
    assert_array_equal(check_sequences([x, x[:1]]).lengths, [2, 1])
    x.requires_grad_()
    with pytest.raises(TypeError, match=r"^X is a tensor that requires .*detach\(\)"):
        check_sequences(x)
    with pytest.raises(TypeError, match=r"^sample 1 of X is a tensor .*detach\(\)"):
        check_sequences([x.detach(), x])
    with pytest.raises(TypeError, match="X cannot be read as a NumPy array"):
        check_sequences([[x[0]]])


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_no_batch_is_refused_by_name(kind):
    X, error, message = REFUSED[kind]
    with pytest.raises(error, match=message):
        check_sequences(X)


@pytest.mark.parametrize("wrap", [list, as_object_array])
@pytest.mark.parametrize("kind", REFUSED_SAMPLES)
def test_what_is_no_sequence_is_refused_by_its_number(kind, wrap):
    sample, error, message = REFUSED_SAMPLES[kind]
    with pytest.raises(error, match=message):
        check_sequences(wrap([np.ones((2, 2)), sample]))


def test_frames_with_other_columns_are_refused():
    frames = [pd.DataFrame({"a": [1], "b": [2]}), pd.DataFrame({"b": [2], "a": [1]})]
    with pytest.raises(ValueError, match=r"sample 1 of X has the columns \['b', 'a'\]"):
        check_sequences(frames)


def test_the_estimator_is_named():
    with pytest.raises(ValueError, match="required by SomeRegressor"):
        check_sequences(np.ones((2, 0)), estimator="SomeRegressor")


# -- batches and the way back ----------------------------------------------------------

ROWS = {
    "one": [2],
    "shuffled": [3, 0, 2],
    "repeated": [1, 1, 0],
    "from the end": [-1, -2],
    "slice": slice(1, 3),
    "mask": np.array([True, False, False, True]),
}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("container", ["list", "3d"])
def test_padded_agrees_with_the_arrays(container, rows):
    arrays = make_list(dtype=np.float32)
    chosen = list(as_object_array(arrays)[rows])
    starts = np.array(LEFT["both"] if container == "3d" else [0, 0, 0, 0])
    X = arrays if container == "list" else pad(arrays, starts, LONGEST)
    sequences = check_sequences(X)

    for n_timesteps in (None, LONGEST, 9):
        x, lengths = sequences.padded(rows, n_timesteps)
        assert x.shape == (len(chosen), n_timesteps or max(map(len, chosen)), 2)
        assert x.dtype == np.float32
        assert_array_equal(lengths, [len(array) for array in chosen])
        for row, array in zip(x, chosen, strict=True):
            assert_array_equal(row[: len(array)], array)
            assert_array_equal(row[len(array) :], 0)


@pytest.mark.parametrize("rows", [slice(1, 3), [2, 0], [True, False, True]])
def test_sequences_of_one_length_are_a_block(rows):
    X = np.random.default_rng(0).normal(size=(3, 5, 2)).astype(np.float32)
    sequences = check_sequences(X)
    assert np.shares_memory(sequences.block, X)
    assert_array_equal(sequences.block, X)
    x, lengths = sequences.padded(rows, 7)
    assert_array_equal(x[:, :5], X[rows])
    assert not x[:, 5:].any()
    assert_array_equal(lengths, [5, 5])
    assert not np.shares_memory(sequences.padded(rows)[0], X)
    assert check_sequences(make_list()).block is None


@pytest.mark.parametrize("lengths", [LENGTHS, (4, 4, 4)])
def test_places_say_where_the_steps_of_a_batch_are(lengths):
    sequences = check_sequences(make_list(lengths=lengths))
    at, real = sequences.places([2, 0], 9)
    assert at.shape == real.shape == (2, 9)
    assert not at[~real].any()
    expected = np.concatenate([sequences[2], sequences[0]])
    assert_array_equal(sequences.values[at[real]], expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_finite_is_not_fooled_by_the_sum(dtype):
    largest = np.finfo(dtype).max
    values = np.full((50, 3), largest, dtype)
    assert all_finite(values)  # though their sum is infinite
    assert all_finite(values * np.array([[1], [-1]] * 25, dtype))
    for bad in (np.nan, np.inf, -np.inf):
        values[30, 1] = bad
        assert not all_finite(values)
    values[31, 1] = np.inf  # and the sum is NaN
    assert not all_finite(values)


@pytest.mark.parametrize("trailing", [(), (1,), (2, 3)])
def test_unflatten_gives_back_lists(trailing):
    sequences = check_sequences(make_list())
    steps = np.random.default_rng(1).normal(size=(sum(LENGTHS), *trailing))
    answer = sequences.unflatten(steps)
    assert isinstance(answer, list)
    assert [a.shape for a in answer] == [(n, *trailing) for n in LENGTHS]
    assert_array_equal(np.concatenate(answer), steps)


def test_unflatten_gives_back_object_arrays_of_equal_shapes_too():
    arrays = make_list(lengths=(3, 3))
    sequences = check_sequences(as_object_array(arrays), dtype="float64")
    answer = sequences.unflatten(sequences.values)
    assert (answer.dtype, answer.shape) == (np.dtype(object), (2,))
    assert_array_equal(answer[1], arrays[1])


@pytest.mark.parametrize("trailing", [(), (4,)])
@pytest.mark.parametrize("side", LEFT)
def test_unflatten_puts_steps_where_they_were(side, trailing):
    sequences = check_sequences(pad(make_list(), LEFT[side], LONGEST))
    steps = np.random.default_rng(1).normal(size=(sum(LENGTHS), *trailing))
    answer = sequences.unflatten(steps)
    assert answer.shape == (len(LENGTHS), LONGEST, *trailing)
    for row, start, n, part in zip(
        answer,
        LEFT[side],
        LENGTHS,
        np.split(steps, np.cumsum(LENGTHS)[:-1]),
        strict=True,
    ):
        assert_array_equal(row[start : start + n], part)
        assert np.isnan(row[:start]).all()
        assert np.isnan(row[start + n :]).all()


def test_unflatten_of_2d_input_is_in_the_order_of_time():
    X = np.array([[3.0, 2.0, 1.0]])
    sequences = check_sequences(X, columns_order="newest_first")
    assert_array_equal(sequences.unflatten(sequences.values[:, 0]), [[1, 2, 3]])


def test_integer_answers_come_back_where_nothing_is_padded():
    sequences = check_sequences(np.ones((2, 3)))
    assert sequences.unflatten(np.arange(6)).dtype == np.arange(6).dtype


def test_padded_at_random_and_read_is_what_it_was():
    rng = np.random.default_rng(0)
    for _ in range(20):
        lengths = rng.integers(1, 8, size=rng.integers(1, 6))
        arrays = make_list(int(rng.integers(1, 4)), lengths)
        T = lengths.max() + rng.integers(0, 3)
        X = pad(arrays, [rng.integers(0, T - n + 1) for n in lengths], T)
        sequences = check_sequences(X, dtype="float64")
        assert_same_sequences(sequences, arrays)
        assert_array_equal(sequences.unflatten(sequences.values), X)


# -- names -----------------------------------------------------------------------------

NAMED = {
    "None": (None, "^X_val is None"),
    "sparse": (scipy.sparse.csr_array(np.eye(3)), r"^X_val is sparse.* X_val.toarray"),
    "1D": (np.ones(3), "Expected 2D array, got 1D"),
    "4D": (np.ones((1, 2, 3, 4)), "^X_val has 4 dimensions"),
    "no steps": (np.ones((2, 0, 2)), "^X_val of shape"),
    "dates": (np.zeros((2, 2), "M8[D]"), "^X_val holds dates"),
    "masked": (np.ma.ones((2, 2, 1)), "^X_val is a masked array"),
    "rows of unequal length": ([[1, 2], [3]], "X_val"),
    "MultiIndex": (pd.DataFrame({"a": [1, 2]}, index=MULTI_INDEX), "^the rows of X_v"),
    "only padding": (np.full((1, 3, 2), np.nan), "^sample 0 of X_val is an empty"),
    "NaN": ([[np.nan]], r"^Input X_val contains NaN .* X_val\[:, :, None\]"),
    "infinity": (np.full((1, 1, 1), np.inf), "^Input X_val contains infinity"),
    "odd columns": (np.ones((2, 3)), "^X_val has 3 columns, which is no multiple"),
    "no features": ([np.ones((2, 0))], "^sample 0 of X_val has 0 features"),
    "other features": ([np.ones(2), np.ones((2, 2))], "^all sequences of X_val need"),
    "other columns": (
        [pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})],
        "^sample 1 of X_val has the columns",
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_every_message_calls_x_by_its_name(kind):
    X, message = NAMED[kind]
    with pytest.raises((ValueError, TypeError), match=message) as error:
        check_sequences(X, n_channels=2 if kind == "odd columns" else 1, name="X_val")
    assert not re.search(r"\bX\b", str(error.value))


def test_the_columns_of_frames_in_a_list_are_kept():
    frames = [pd.DataFrame({"a": [1, 2], "b": [3, 4]}), pd.DataFrame([[5, 6]])]
    frames[1].columns = ["a", "b"]
    for X in (frames, as_object_array(frames), [*frames, np.ones((1, 2))]):
        sequences = check_sequences(X)
        assert sequences.columns == ("a", "b")


@pytest.mark.parametrize(
    "X", [make_list(), pd.DataFrame({"a": [1]}), [pd.Series([1, 2], name="a")]]
)
def test_other_input_has_no_columns(X):
    assert check_sequences(X).columns is None
