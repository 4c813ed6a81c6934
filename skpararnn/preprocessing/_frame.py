"""Frames: tables of many series as lists of sequences."""

import numpy as np
import pandas as pd

from ._series import check_time, find_series
from ._table import refuse_text_and_dates


def sequences_from_frame(
    df, *, by=None, time=None, features=None, target=None, per_step=False
):
    """Turn a long frame, with one row for each step, into a list of sequences.

    Parameters
    ----------
    df : pandas.DataFrame
        Rows of one series need not stand together, but must be in the order of time.
    by : str or list of str, default=None
        Columns or index levels that say which series a row belongs to. None takes the
        levels of a MultiIndex but the last, which then is the time.
    time : str, default=None
        Column or index level that must increase within each series. None takes the
        order of the rows as it is (or the last level, see `by`).
    features : str or list of str, default=None
        Columns that become the features; None takes all others.
    target : str or list of str, default=None
        Columns that become y.
    per_step : bool, default=False
        Whether the target has a value for each step. By default it has one for each
        series, repeated on all of its rows.

    Returns
    -------
    X : list of ndarray of shape (n_timesteps_i, n_features)
        Sequences in the order in which the series first appear; float32 if all
        features are, else float64. NaN stays NaN: fill the frame before, because a
        list takes no missing values.
    y : ndarray of shape (n_series,), list of ndarray of shape (n_timesteps_i,), or None
        The target of each series; with ``per_step=True`` those of its steps; None
        without `target`. A list of target columns adds an axis at the end.
    keys : pandas.Index of shape (n_series,)
        Names of the series, a MultiIndex if `by` is several.

    Raises
    ------
    ValueError
        If a column does not exist; naming the column that is not numeric, the row
        without series or time, the series and time that come twice or too early, or
        the series whose target is not the same on all rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from skpararnn.preprocessing import sequences_from_frame
    >>> df = pd.DataFrame({
    ...     "engine": ["b", "b", "a", "a", "a"],
    ...     "hour": [0, 1, 0, 1, 2],
    ...     "heat": [20.0, 21.0, 30.0, 32.0, 31.0],
    ...     "fails": [0, 0, 1, 1, 1],
    ... })
    >>> X, y, keys = sequences_from_frame(df, by="engine", time="hour", target="fails")
    >>> X
    [array([[20.],
           [21.]]), array([[30.],
           [32.],
           [31.]])]
    >>> y
    array([0, 1])
    >>> list(keys)
    ['b', 'a']

    Predictions get their names back by ``pd.Series(model.predict(X), index=keys)``.
    """
    _check_frame(df)
    series = find_series(_keys(df, by), "the series")
    check_time(series, _times(df, by, time))
    if features is None:
        used = [*_as_list(by), *_as_list(time), *_as_list(target)]
        features = [name for name in df.columns if name not in used]
    values = _feature_values(df, _as_list(features))
    X = np.split(values[series.order], series.offsets[1:-1])
    return X, _target_values(df, target, series, per_step), series.keys


def _as_list(names):
    if names is None:
        return []
    return list(names) if isinstance(names, (list, tuple, pd.Index)) else [names]


def _check_frame(df):
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"df must be a pandas.DataFrame, got {type(df).__name__}.")
    if len(df) == 0:
        raise ValueError("df has no rows.")
    if not df.columns.is_unique:
        twice = df.columns[df.columns.duplicated()][0]
        raise ValueError(f"df has more than one column {twice!r}.")


def _keys(df, by):
    """Name of the series of each row, an Index or MultiIndex."""
    if by is None and df.index.nlevels == 1:
        raise ValueError(
            "by must name the column that says which series a row belongs to; only a "
            "frame with a MultiIndex (series, time) goes without."
        )
    if by is None:
        return df.index.droplevel(-1)
    columns = [_column_or_level(df, name, "by") for name in _as_list(by)]
    return columns[0] if len(columns) == 1 else pd.MultiIndex.from_arrays(columns)


def _times(df, by, time):
    """Time of each row; its number where no time is given."""
    if time is not None:
        return _column_or_level(df, time, "time")
    return df.index.get_level_values(-1) if by is None else pd.RangeIndex(len(df))


def _column_or_level(df, name, role):
    if name in df.index.names and name not in df.columns:
        return df.index.get_level_values(name)
    _check_columns(df, [name], role)
    return pd.Index(df[name])


def _check_columns(df, names, role):
    for name in names:
        if name not in df.columns:
            known = ", ".join(map(repr, df.columns))
            raise ValueError(f"{role} names {name!r}, but df has the columns {known}.")


def _feature_values(df, features):
    """Array of shape (n_rows, n_features) of float32 or float64."""
    if not features:
        raise ValueError("df has no column left for the features.")
    _check_columns(df, features, "features")
    frame = df[features]
    refuse_text_and_dates(frame)
    dtype = np.float32 if (frame.dtypes == np.float32).all() else np.float64
    return frame.to_numpy(dtype, na_value=np.nan)


def _target_values(df, target, series, per_step):
    if target is None:
        return None
    _check_columns(df, _as_list(target), "target")
    values = df[target].to_numpy()[series.order]
    if per_step:
        return np.split(values, series.offsets[1:-1])
    for name in _as_list(target):
        _check_constant(df[name].iloc[series.order], series)
    return values[series.offsets[:-1]]


def _check_constant(column, series):
    codes, _ = pd.factorize(column)  # here NaN equals NaN
    first = np.repeat(series.offsets[:-1], series.lengths)
    differs = codes != codes[first]
    if differs.any():
        at = differs.argmax()
        raise ValueError(
            f"target {column.name!r} of series {series.name_at(at)} is "
            f"{column.iloc[first[at]]} and {column.iloc[at]}; with per_step=True each "
            "step has its own."
        )
