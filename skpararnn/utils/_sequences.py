"""Sequences: how X is read, checked once and kept.

Everything behind this door works on flat values with offsets, so ragged data are
never padded as a whole, and padding always is on the right of a batch.
"""

from collections.abc import Iterator, MappingView
from dataclasses import dataclass
from functools import cached_property

import numpy as np

COLUMNS_ORDERS = ("oldest_first", "newest_first")
COLUMNS_LAYOUTS = ("by_step", "by_channel")


@dataclass(frozen=True, eq=False)
class Sequences:
    """Checked sequences, one after another in one array.

    Parameters
    ----------
    values : ndarray of shape (sum of lengths, n_features)
        All real steps of all sequences, finite.
    offsets : ndarray of shape (n_samples + 1,)
        Sequence ``i`` is ``values[offsets[i]:offsets[i + 1]]``.
    starts : ndarray of shape (n_samples,)
        Padded steps before the first real one, as the input had them.
    container : {"2d", "3d", "list", "object"}
        What the input was; "object" is a 1-D object array of arrays.
    n_timesteps : int or None
        Length of the input's time axis, padding included; None for lists.
    columns : tuple or None
        Names of the columns that the frames of a list have in common, else None.
    """

    values: np.ndarray
    offsets: np.ndarray
    starts: np.ndarray
    container: str
    n_timesteps: int | None = None
    columns: tuple | None = None

    def __len__(self):
        return len(self.offsets) - 1

    def __getitem__(self, i):
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @cached_property
    def lengths(self):
        """Real steps of every sequence, ndarray of shape (n_samples,)."""
        return np.diff(self.offsets)

    @cached_property
    def block(self):
        """Values as (n_samples, n_timesteps, n_features); None if lengths differ."""
        T = self.lengths[0]
        same = (self.lengths == T).all()
        return self.values.reshape(-1, T, self.n_features) if same else None

    @property
    def steps(self):
        """Number of each real step in its sequence, ndarray (sum of lengths,)."""
        return np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths)

    @property
    def n_features(self):
        """Number of features of a step."""
        return self.values.shape[1]

    def padded(self, rows, n_timesteps=None):
        """A batch with zeros after the last real step of each row.

        Parameters
        ----------
        rows : ndarray of int, mask or slice
        n_timesteps : int, default=None
            Length of the time axis; None takes the longest of the rows.

        Returns
        -------
        x : ndarray of shape (n_rows, n_timesteps, n_features)
        lengths : ndarray of shape (n_rows,)
        """
        lengths = self.lengths[rows]
        T = int(lengths.max()) if n_timesteps is None else n_timesteps
        if self.block is not None:
            x = np.zeros((len(lengths), T, self.n_features), self.values.dtype)
            x[:, : self.block.shape[1]] = self.block[rows]
            return x, lengths
        at, real = self.places(rows, T)
        x = self.values.take(at, axis=0)
        if not real.all():
            x[~real] = 0
        return x, lengths

    def places(self, rows, n_timesteps):
        """Where the steps of a batch stand in the values.

        Parameters
        ----------
        rows : ndarray of int, mask or slice
        n_timesteps : int
            At least the length of the longest of the rows.

        Returns
        -------
        at : ndarray of int of shape (n_rows, n_timesteps)
            0 after the last real step of a row.
        real : ndarray of bool of shape (n_rows, n_timesteps)
        """
        step = np.arange(n_timesteps)
        real = step < self.lengths[rows][:, None]
        return np.where(real, self.offsets[:-1][rows][:, None] + step, 0), real

    def unflatten(self, answers):
        """Give per-step answers the container of the input.

        Parameters
        ----------
        answers : ndarray of float of shape (sum of lengths, ...)

        Returns
        -------
        ndarray of shape (n_samples, n_timesteps, ...) with NaN where the input was
        padding, or for ragged input a list or object array of arrays. Steps are in
        the order of time, whatever the order of the columns.
        """
        if self.container in ("2d", "3d"):
            return self._padded_as_before(answers)
        parts = np.split(answers, self.offsets[1:-1])
        return parts if self.container == "list" else _object_array(parts)

    def _padded_as_before(self, answers):
        shape = len(self), self.n_timesteps, *answers.shape[1:]
        if len(answers) == len(self) * self.n_timesteps:
            return answers.reshape(shape)
        padded = np.full(shape, np.nan, answers.dtype)
        row = np.repeat(np.arange(len(self)), self.lengths)
        padded[row, self.starts[row] + self.steps] = answers
        return padded


def check_sequences(
    X,
    *,
    dtype=np.float32,
    n_channels=1,
    columns_order="oldest_first",
    columns_layout="by_step",
    estimator=None,
    name="X",
):
    """Read X as sequences, refuse what is none, and cast it once.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_timesteps, n_features) or \
            (n_samples, n_columns), or list or object array of arrays
        3-D arrays may be padded: steps at either end whose features are all NaN do
        not exist. Rows of a 2-D array are sequences of ``n_columns / n_channels``
        steps. Arrays of a list have the shape (n_timesteps_i, n_features) or
        (n_timesteps_i,).
    dtype : data-type or None, default=float32
        Type of the values returned; None keeps float32 and makes float64 of the rest.
    n_channels : int, default=1
        Features of a step of 2-D input.
    columns_order : {"oldest_first", "newest_first"}, default="oldest_first"
        Direction of time along the columns of 2-D input.
    columns_layout : {"by_step", "by_channel"}, default="by_step"
        Whether the columns of 2-D input hold all features of one step and then
        those of the next, or all steps of one feature and then those of the next.
    estimator : estimator or str, default=None
        Named in error messages.
    name : str, default="X"
        What X is called in error messages.

    Returns
    -------
    Sequences

    Raises
    ------
    ValueError, TypeError
        Naming the sample, step and feature of a NaN, infinity or cell that is no
        number, the empty sequence, the two lengths or feature counts that differ, or
        the kind of X that is not understood.
    """
    layout = n_channels, columns_order, columns_layout
    with np.errstate(over="ignore"):  # infinities are found below and named
        if _is_ragged(X):
            sequences = _read_list(X, dtype, name)
        else:
            array = _read_array(X, layout, estimator, name)
            container = f"{array.ndim}d"
            if array.ndim == 2:
                _refuse_half_steps(array, n_channels, name)
                array = _columns_to_steps(array, *layout)
            sequences = _strip_padding(array, container, dtype, name)
    if not all_finite(sequences.values):
        raise ValueError(_name_first_bad_value(sequences, X, layout, name))
    return sequences


def all_finite(array):
    """Tell whether no number is NaN or infinite."""
    with np.errstate(all="ignore"):
        total = array.sum()  # one pass and no copy, where it says all
    return bool(np.isfinite(total) or np.isfinite(array).all())


def _offsets(lengths):
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


def _object_array(parts):
    array = np.empty(len(parts), dtype=object)
    for i, part in enumerate(parts):  # array[:] = parts would stack equal shapes
        array[i] = part
    return array


def _values_dtype(dtype, given):
    """The type asked for; float32 stays float32 and the rest is float64 for None."""
    if dtype is not None:
        return dtype
    return np.float32 if all(d == np.float32 for d in given) else np.float64


def _is_ragged(X):
    """A list or tuple of arrays, or a Series or 1-D object array of arrays or lists."""
    if isinstance(X, (list, tuple)):
        return any(getattr(x, "ndim", 0) >= 1 for x in X)
    if getattr(X, "ndim", None) == 1 and getattr(X, "dtype", None) == np.dtype("O"):
        return any(isinstance(x, list) or getattr(x, "ndim", 0) >= 1 for x in X)
    return False


def _read_list(X, dtype, name):
    container = "list" if isinstance(X, (list, tuple)) else "object"
    arrays = [_read_one(x, f"sample {i} of {name}") for i, x in enumerate(X)]
    n_features = arrays[0].shape[1]
    for i, array in enumerate(arrays):
        if array.shape[1] != n_features:
            raise ValueError(
                f"all sequences of {name} need the same number of features: sample 0 "
                f"has {n_features} features, sample {i} has {array.shape[1]}."
            )
    columns = _common_columns(X, name)
    dtype = _values_dtype(dtype, (array.dtype for array in arrays))
    offsets = _offsets([len(array) for array in arrays])
    starts = np.zeros(len(arrays), dtype=np.intp)
    values = np.concatenate(arrays, dtype=dtype)
    return Sequences(values, offsets, starts, container, columns=columns)


def _read_one(x, what):
    """One sequence of a list as a numeric array of shape (n_timesteps, n_features)."""
    refuse_masked(x, what)
    _refuse_gradients(x, what)
    array = _convert_one(x, what)
    refuse_kinds(array, what)
    if len(array) == 0:
        raise ValueError(
            f"{what} is an empty sequence: its length is 0, at least one time "
            "step is needed."
        )
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise ValueError(
            f"{what} has {array.ndim} dimensions, shape {array.shape}; {SEQUENCE}"
        )
    if array.shape[1] == 0:
        raise ValueError(f"{what} has 0 features, shape {array.shape}.")
    return array


SEQUENCE = (
    "a sequence is a 1D array (n_timesteps,) or a 2D array (n_timesteps, n_features)."
)


def _convert_one(x, what):
    """A numeric array with at least one dimension, dates and complex numbers too."""
    try:
        array = np.asarray(x)
    except CONVERSION_ERRORS as error:
        place = _first_unequal(x, ("step", "feature"))
        raise _unread(error, what, f"{place}: " if place else "") from error
    if array.ndim == 0:
        _refuse_scalar(x, what)
    if array.dtype.kind not in "OUS":
        return array
    try:
        return array.astype(np.float64)
    except CONVERSION_ERRORS as error:
        raise _unread(error, what, _place_in_one(array, x)) from error


def _unread(error, what, place):
    return ValueError(
        f"{what} cannot be read as a numeric array of shape (n_timesteps, n_features): "
        f"{place}{error}"
    )


def _place_in_one(array, x):
    """Where a sequence holds what is no number, and what it is."""
    at = _first_no_number(array)
    if at is None:
        return ""
    place = ", ".join(f"{w} {i}" for w, i in zip(("step", "feature"), at, strict=False))
    if hasattr(x, "columns"):
        place += f" (column {x.columns[at[1]]!r})"
    return f"{place} is {_shown(array[at])}, which is no number: "


def _refuse_scalar(x, what):
    kind = f"a {type(x).__name__}"
    if np.asarray(x).dtype.kind in "biufc":
        kind = "a number"
    raise ValueError(f"{what} is {'None' if x is None else kind}; {SEQUENCE}")


# what NumPy, pandas and torch raise where a value cannot become a number
CONVERSION_ERRORS = ValueError, TypeError, OverflowError, RuntimeError


def _first_no_number(array):
    """Index of the first cell that float() refuses, or None."""
    for at in np.ndindex(array.shape):
        if not _is_number(array[at]):
            return at
    return None


def _is_number(cell):
    try:
        return np.ndim(cell) == 0 and isinstance(float(cell), float)
    except CONVERSION_ERRORS:
        return False


def _shown(value):
    """A value in an error message, short."""
    if getattr(value, "ndim", 0):
        return f"an array of shape {np.shape(value)}"
    try:
        text = repr(value.item() if isinstance(value, np.generic) else value)
    except ValueError:  # Python writes no integer of more than 4300 digits
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 50 else f"{text[:40]}... ({len(text)} characters)"


def _first_unequal(nested, words):
    """Where the parts of a nested list first differ in length, or ""."""
    parts = [((), nested)]
    for depth in range(1, len(words) + 1):
        parts = [((*at, i), x) for at, part in parts for i, x in enumerate(part)]
        lengths = [_length(x) for _, x in parts]
        for (at, _), length in zip(parts, lengths, strict=True):
            if length != lengths[0]:
                first = ", ".join(f"{word} 0" for word in words[:depth])
                place = ", ".join(f"{w} {i}" for w, i in zip(words, at, strict=False))
                return f"{place} {_measured(length)}, {first} {_measured(lengths[0])}"
        if None in lengths:
            break
    return ""


def _length(x):
    try:
        return len(x)
    except TypeError:
        return None


def _measured(length):
    return "is a single value" if length is None else f"has the length {length}"


def _common_columns(X, name):
    """Frames of a list are read by position, so their columns must be the same."""
    named = [(i, list(x.columns)) for i, x in enumerate(X) if hasattr(x, "columns")]
    for i, columns in named:
        first, expected = named[0]
        if columns != expected:
            raise ValueError(
                f"sample {i} of {name} has the columns {columns}, sample {first} has "
                f"{expected}; give all frames the same columns in the same order."
            )
    return tuple(named[0][1]) if named else None


def refuse_kinds(array, what):
    """Refuse complex numbers and dates, which NumPy would turn into other numbers."""
    if array.dtype.kind == "c":
        raise ValueError(f"Complex data not supported: {what} has {array.dtype}.")
    if array.dtype.kind in "mM":
        raise TypeError(
            f"{what} holds dates or durations ({array.dtype}); turn them into numbers, "
            "for example hours since the first step."
        )


def refuse_masked(array, what):
    """Refuse masked arrays, whose mask NumPy would drop."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            f"{what} is a masked array, which is not read; missing steps are NaN, as "
            "its filled(numpy.nan) gives them."
        )


def _refuse_gradients(x, what):
    if getattr(x, "requires_grad", False):
        raise TypeError(
            f"{what} is a tensor that requires grad, which NumPy cannot read; pass "
            "tensors without it, as X.detach()."
        )


def _read_array(X, layout, estimator, name):
    """A numeric array with two or three dimensions, finite or not."""
    from sklearn.utils import check_array

    _refuse_what_is_no_array(X, name)
    if not hasattr(X, "columns"):
        X = _as_numpy(X, name)
        refuse_kinds(X, name)
        if X.ndim > 3:
            raise ValueError(f"{name} has {X.ndim} dimensions, {X.shape}; {EXPECTED}")
    try:
        array = check_array(
            X,
            allow_nd=np.ndim(X) == 3,
            ensure_all_finite=False,
            estimator=estimator,
            input_name=name,
        )
        if array.dtype.kind == "O":  # frames with pandas' own types stay objects
            array = array.astype(np.float64)
    except CONVERSION_ERRORS as error:
        place = _place_of_no_number(X, layout, name)
        if place is None:
            raise
        # scikit-learn's type, not NumPy's subclass of it, and scikit-learn's words
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{place}, which is no number: {error}") from error
    refuse_kinds(array, name)
    if array.ndim == 3 and 0 in array.shape[1:]:
        raise ValueError(
            f"{name} of shape (n_samples, n_timesteps, n_features) = {array.shape} "
            "is empty: at least 1 time step and 1 feature are needed."
        )
    return array


EXPECTED = (
    "expected an array of shape (n_samples, n_timesteps, n_features) or "
    "(n_samples, n_timesteps), or a list of arrays."
)


def _place_of_no_number(X, layout, name):
    """The first cell of a frame or array that is no number, in words, or None."""
    cells = X.to_numpy() if hasattr(X, "columns") else X
    if cells.dtype.kind not in "OUS" or cells.ndim not in (2, 3) or not cells.size:
        return None
    at = _first_no_number(cells)
    if at is None and cells.dtype.kind == "O":
        return None
    at = at or (0,) * cells.ndim  # arrays of text are refused even if it is digits
    if cells.ndim == 3:
        where = _where(*at)
    else:
        _refuse_half_steps(cells, layout[0], name)
        columns = _columns_to_steps(np.arange(cells.shape[1])[None], *layout)[0]
        step, feature = np.argwhere(columns == at[1])[0]
        where = _where(at[0], step, feature, _column_name(X, at[1]))
    return f"{where} of {name} is {_shown(cells[at])}"


def _where(sample, step, feature, column=None):
    place = f"sample {sample}, step {step}, feature {feature}"
    return place if column is None else f"{place} (column {column})"


def _column_name(X, column):
    return repr(X.columns[column]) if hasattr(X, "columns") else column


def _refuse_what_is_no_array(X, name):
    if X is None:
        raise ValueError(f"{name} is None; {EXPECTED}")
    if hasattr(X, "tocsr"):
        raise TypeError(
            f"{name} is sparse; sequences are dense arrays: {name}.toarray()."
        )
    refuse_masked(X, name)
    _refuse_gradients(X, name)
    if isinstance(X, (str, bytes, dict, set, Iterator, MappingView)):
        raise TypeError(f"{name} is a {type(X).__name__}; {EXPECTED}")
    if isinstance(X, (list, tuple)) and not X:
        raise ValueError(
            f"{name} is an empty {type(X).__name__}: 0 samples, at least 1 is needed."
        )
    if getattr(getattr(X, "columns", None), "nlevels", 1) > 1:
        raise ValueError(
            f"the columns of {name} have a MultiIndex, which has no plain names: "
            f"rename them, or pass {name}.to_numpy()."
        )
    if getattr(getattr(X, "index", None), "nlevels", 1) > 1:
        raise ValueError(
            f"the rows of {name} have a MultiIndex such as (series, time), so the "
            "number of sequences differs from the number of rows: make a list of "
            "sequences with skpararnn.preprocessing.sequences_from_frame first. If "
            f"each row is a sequence of its own, pass {name}.to_numpy()."
        )


def _as_numpy(X, name):
    try:
        array = np.asarray(X)
    except CONVERSION_ERRORS as error:
        words = "sample", "step", "feature"
        place = _first_unequal(X, words) if isinstance(X, (list, tuple)) else ""
        if not place:
            raise TypeError(
                f"{name} cannot be read as a NumPy array: {error}"
            ) from error
        raise ValueError(
            f"{name} is a nested list whose rows differ in length: {place}; pass a "
            "list of arrays instead, one of shape (n_timesteps_i, n_features) for "
            "each sequence."
        ) from error
    if array.ndim == 1 and array.dtype.kind == "O":
        for i, x in enumerate(array):
            if not _is_number(x):
                _refuse_scalar(x, f"sample {i} of {name}")
    return array


def _refuse_half_steps(array, n_channels, name):
    if array.shape[1] % n_channels:
        raise ValueError(
            f"{name} has {array.shape[1]} columns, which is no multiple of n_channels="
            f"{n_channels}."
        )


def _columns_to_steps(array, n_channels, order, layout):
    """(n_samples, n_columns) -> (n_samples, n_timesteps, n_channels)."""
    n_samples = len(array)
    if layout == "by_step":
        array = array.reshape(n_samples, -1, n_channels)
    else:
        array = array.reshape(n_samples, n_channels, -1).transpose(0, 2, 1)
    return array[:, ::-1] if order == "newest_first" else array


def _strip_padding(array, container, dtype, name):
    """Keep the real steps of a 3-D array (n_samples, n_timesteps, n_features)."""
    n_samples, T, n_features = array.shape
    may_be_padded = container == "3d" and array.dtype.kind == "f"
    if may_be_padded and not all_finite(array) and np.isnan(array).any():
        starts, ends = _real_range(array, name)
        step = np.arange(T)
        values = array[(step >= starts[:, None]) & (step < ends[:, None])]
    else:
        starts = np.zeros(n_samples, dtype=np.intp)
        ends = np.full(n_samples, T)
        values = array.reshape(-1, n_features)
    values = np.ascontiguousarray(values, dtype=_values_dtype(dtype, [values.dtype]))
    return Sequences(values, _offsets(ends - starts), starts, container, T)


def _real_range(array, name):
    """First real step of each sequence and the one after its last."""
    real = ~np.isnan(array).all(axis=2)
    has_steps = real.any(axis=1)
    if not has_steps.all():
        raise ValueError(
            f"sample {has_steps.argmin()} of {name} is an empty sequence: all of its "
            "time steps are padding (NaN), at least one real step is needed."
        )
    return real.argmax(axis=1), real.shape[1] - real[:, ::-1].argmax(axis=1)


REMEDIES = {
    "2d": "2D input takes no missing values: fill them, or pass padded sequences as a "
    "3D array, {name}[:, :, None].",
    "3d": "Only steps at either end whose features are all NaN are padding; fill other "
    "missing values first.",
    "list": "Sequences of a list take no missing values: fill them first.",
    "object": "Sequences of an object array take no missing values: fill them first.",
}


def _name_first_bad_value(sequences, X, layout, name):
    """Say where the first NaN or infinity is, in the coordinates of the input."""
    at, feature = np.argwhere(~np.isfinite(sequences.values))[0]
    sample = np.searchsorted(sequences.offsets, at, side="right") - 1
    step = at - sequences.offsets[sample] + sequences.starts[sample]
    column = None
    if sequences.container == "2d":
        n_columns = sequences.n_timesteps * sequences.n_features
        columns = _columns_to_steps(np.arange(n_columns)[None], *layout)
        column = _column_name(X, columns[0, step, feature])
    where = _where(sample, step, feature, column)
    if np.isnan(sequences.values[at, feature]):
        remedy = REMEDIES[sequences.container].format(name=name)
        return f"Input {name} contains NaN in {where}. {remedy}"
    dtype = sequences.values.dtype
    return (
        f"Input {name} contains infinity or a value too large for {dtype} in {where}."
    )
