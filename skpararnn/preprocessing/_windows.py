"""Windows over the rows of a table: one for each row, or the full ones only."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from ..utils import _parameters as rule
from ._base import BaseTransformer
from ._series import series_of_table
from ._table import AS_TABLE, check_finite, refuse_what_is_no_table

# what stands before the first rows of the series, given these rows (n_series, f)
PADS = {
    "nan": lambda first_rows: np.nan,
    "edge": lambda first_rows: first_rows[:, None],
    "zero": lambda first_rows: 0.0,
}

RULES = {
    "window_size": rule.integer(1),
    "dilation": rule.integer(1),
    "pad": rule.choice(*PADS),
    "horizon": rule.integer(0),
    "stride": rule.integer(1),
}


class TrailingWindows(
    OneToOneFeatureMixin, BaseTransformer, auto_wrap_output_keys=None
):
    """Give each row of a table the rows before it: its trailing window.

    The number of rows stays the same, so windows can be cut inside a Pipeline, after
    each split of a cross-validation, and ``window_size`` can be searched over.

    Parameters
    ----------
    window_size : int, default=24
        Number of rows in a window, the row itself included.
    dilation : int, default=1
        Distance between the rows of a window; 24 takes the same hour of the days
        before from hourly rows.
    pad : {"nan", "edge", "zero"}, default="nan"
        What stands in a window before the first row of the table (or series). The
        estimators of this package take steps of NaN as padding; ``"edge"`` repeats the
        first row and ``"zero"`` is for estimators that know no padding.

    Attributes
    ----------
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns; only if X had names in `fit`.

    See Also
    --------
    make_windows : Full windows only, with their targets.

    Notes
    -----
    Window ``i`` holds the rows ``i - (window_size - 1) * dilation, ..., i - dilation,
    i``: rows to come never enter it. The target is aligned by the user, so that the
    horizon stays visible: ``y = demand.shift(-24)`` is the demand 24 rows ahead.

    Every call of `transform` starts anew: the first rows of a test fold have short
    windows, as the first rows of the training fold have.

    Windows never cross series. A frame with a MultiIndex (series, time) says itself
    which rows belong together (all levels but the last name the series); otherwise
    pass `groups`. In a Pipeline, steps that return arrays lose the index:
    ``set_output(transform="pandas")`` keeps it up to this step.

    Missing values are refused. A row of NaN would look like padding, and a part of a
    row would come back in `window_size` windows; fill them before, or interpolate.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn.preprocessing import TrailingWindows
    >>> X = np.array([[1.0], [2.0], [3.0], [4.0]])
    >>> windows = TrailingWindows(window_size=3).fit_transform(X)
    >>> windows.shape
    (4, 3, 1)
    >>> windows[:, :, 0]
    array([[nan, nan,  1.],
           [nan,  1.,  2.],
           [ 1.,  2.,  3.],
           [ 2.,  3.,  4.]])
    >>> TrailingWindows(3).fit_transform(X, groups=["a", "a", "b", "b"])[:, :, 0]
    array([[nan, nan,  1.],
           [nan,  1.,  2.],
           [nan, nan,  3.],
           [nan,  3.,  4.]])
    """

    def __init__(self, window_size=24, *, dilation=1, pad="nan"):
        self.window_size = window_size
        self.dilation = dilation
        self.pad = pad

    def fit(self, X, y=None):
        """Check the parameters and remember the columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in the order of time.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is not as described, or naming the row and column of a NaN
            or infinity.
        """
        rule.check_parameters(RULES, self.get_params(deep=False))
        self._read(X, reset=True)
        return self

    def transform(self, X, groups=None):
        """Cut the window of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in the order of time.
        groups : array-like of shape (n_samples,), default=None
            Which series each row belongs to; rows of different series may be mixed.
            None takes the MultiIndex of a frame, or all rows as one series.

        Returns
        -------
        ndarray of shape (n_samples, window_size, n_features)
            float32 if X is, else float64.

        Raises
        ------
        ValueError
            Naming the row and column of a NaN or infinity, the lengths of X and groups
            if they differ, or the series whose times in the MultiIndex do not increase.
        """
        check_is_fitted(self)
        table = self._read(X, reset=False)
        series = series_of_table(X, groups, len(table))
        span = (self.window_size - 1) * self.dilation
        padded, first = _pad_in_front(table, series, span, PADS[self.pad])
        return _windows_of(padded, span, self.dilation)[first]

    def fit_transform(self, X, y=None, groups=None):
        """Fit, then cut the window of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows in the order of time.
        y : object, default=None
            Ignored.
        groups : array-like of shape (n_samples,), default=None
            As in `transform`.

        Returns
        -------
        ndarray of shape (n_samples, window_size, n_features)
        """
        return self.fit(X).transform(X, groups=groups)

    def _read(self, X, *, reset):
        refuse_what_is_no_table(X)
        table = validate_data(self, X, reset=reset, **AS_TABLE)
        check_finite(table, X)
        return table


def make_windows(
    X,
    y=None,
    *,
    window_size,
    horizon=1,
    stride=1,
    groups=None,
    return_index=False,
):
    """Cut the full windows of a table, each with the target that lies ahead of it.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Rows in the order of time. Of a frame only the values and a MultiIndex
        (series, time) are used.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs), default=None
        Target of each row. Values are passed on as they are: NaN, as after a shift, is
        left to whoever reads the targets.
    window_size : int
        Number of rows in a window.
    horizon : int, default=1
        Steps from the last row of a window to the row of its target; 0 is the same row.
        Windows without a target row are left out, also where y is None:
        ``horizon=0`` gives the windows up to the last row, to forecast from.
    stride : int, default=1
        Steps from one window to the next of the same series.
    groups : array-like of shape (n_rows,), default=None
        Which series each row belongs to: windows and targets never cross series. None
        takes the MultiIndex of a frame, or all rows as one series. A series that is
        shorter than ``window_size + horizon`` has no window.
    return_index : bool, default=False
        Whether to return the row number of each target too.

    Returns
    -------
    windows : ndarray of shape (n_windows, window_size, n_features)
        In the order of their target rows; float32 if X is, else float64.
    targets : ndarray of shape (n_windows,) or (n_windows, n_outputs)
        Only if y is given.
    index : ndarray of shape (n_windows,)
        Row numbers of the targets; only with ``return_index=True``.

    Raises
    ------
    ValueError
        If X and y have different lengths, if no series is long enough, or naming the
        row and column of a NaN or infinity in X.

    See Also
    --------
    TrailingWindows : One window for each row, inside a Pipeline.

    Notes
    -----
    Windows overlap, so they must be split by time, never at random. The last
    ``horizon - 1`` training windows before a split have targets that are not known yet
    when the first test window ends; ``TimeSeriesSplit(gap=horizon - 1)`` leaves them
    out, as below (with a stride ``ceil(horizon / stride) - 1``). A scaler belongs into
    the Pipeline, or it has seen the test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import TimeSeriesSplit
    >>> from skpararnn.preprocessing import make_windows
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> y = np.arange(10)
    >>> windows, targets, index = make_windows(
    ...     X, y, window_size=3, horizon=2, return_index=True
    ... )
    >>> windows.shape
    (6, 3, 2)
    >>> targets
    array([4, 5, 6, 7, 8, 9])
    >>> for train, test in TimeSeriesSplit(n_splits=2, gap=1).split(windows):
    ...     known_at = index[test[0]] - 2
    ...     print(index[train], "known at row", known_at, "for targets", index[test])
    [4] known at row 4 for targets [6 7]
    [4 5 6] known at row 6 for targets [8 9]
    """
    parameters = {"window_size": window_size, "horizon": horizon, "stride": stride}
    rule.check_parameters(RULES, parameters)
    refuse_what_is_no_table(X)
    table = check_array(X, input_name="X", **AS_TABLE)
    check_finite(table, X)
    y = None if y is None else _check_targets(y, len(table))
    series = series_of_table(X, groups, len(table))

    last = _last_rows(series, window_size, horizon, stride)
    last = last[np.argsort(series.order[last + horizon])]
    index = series.order[last + horizon]
    span = window_size - 1
    answer = [_windows_of(table[series.order], span)[last - span]]
    if y is not None:
        answer.append(y[index])
    if return_index:
        answer.append(index)
    return answer[0] if len(answer) == 1 else tuple(answer)


def _windows_of(table, span, dilation=1):
    """View (n - span, span // dilation + 1, f) of a table (n, f)."""
    view = sliding_window_view(table, span + 1, axis=0)
    return view[:, :, ::dilation].swapaxes(1, 2)


def _pad_in_front(table, series, span, pad):
    """Series after series with `span` rows before each, and where windows start.

    Returns
    -------
    padded : ndarray of shape (n_rows + n_series * span, n_features)
    first : ndarray of shape (n_rows,)
        Row of `padded` with which the window of each row of the table starts.
    """
    n_rows, n_features = table.shape
    padded = np.empty((n_rows + len(series) * span, n_features), table.dtype)
    earlier = np.arange(len(series)) * span  # padding of the series before each
    starts = series.offsets[:-1] + earlier
    first_rows = table[series.order[series.offsets[:-1]]]
    padded[starts[:, None] + np.arange(span)] = pad(first_rows)

    first = np.empty(n_rows, dtype=np.intp)
    first[series.order] = np.arange(n_rows) + np.repeat(earlier, series.lengths)
    padded[first + span] = table
    return padded, first


def _last_rows(series, window_size, horizon, stride):
    """Where full windows with a target end, as places in the order of the series."""
    since_first = series.steps - (window_size - 1)
    to_come = np.repeat(series.lengths, series.lengths) - series.steps - 1
    is_full = (since_first >= 0) & (since_first % stride == 0) & (to_come >= horizon)
    if not is_full.any():
        raise ValueError(
            f"no window fits: the longest series has {series.lengths.max()} rows, "
            f"window_size={window_size} and horizon={horizon} need "
            f"{window_size + horizon}."
        )
    return np.flatnonzero(is_full)


def _check_targets(y, n_rows):
    y = np.asarray(y)
    if y.ndim == 0 or len(y) != n_rows:
        raise ValueError(
            f"X and y must have the same length: X has {n_rows} rows, y has the shape "
            f"{y.shape}."
        )
    return y
