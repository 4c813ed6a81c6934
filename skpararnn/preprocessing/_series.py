"""Series: which rows of a table follow one another."""

from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Series:
    """The rows of a table, one series after another.

    Parameters
    ----------
    order : ndarray of shape (n_rows,)
        Row numbers; those of series ``i`` are ``order[offsets[i]:offsets[i + 1]]``,
        in the order of the table.
    offsets : ndarray of shape (n_series + 1,)
    keys : pandas.Index of shape (n_series,)
        What the series are called, in the order in which they first appear.
    """

    order: np.ndarray
    offsets: np.ndarray
    keys: pd.Index

    def __len__(self):
        return len(self.keys)

    @property
    def lengths(self):
        """Rows of every series, ndarray of shape (n_series,)."""
        return np.diff(self.offsets)

    @property
    def steps(self):
        """Place of each row within its series, for the rows in `order`."""
        return np.arange(len(self.order)) - np.repeat(self.offsets[:-1], self.lengths)

    def name_at(self, place):
        """Name, for people, of the series to which ``order[place]`` belongs."""
        key = self.keys[np.searchsorted(self.offsets, place, side="right") - 1]
        return ", ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def find_series(keys, what):
    """Bring together the rows with the same key.

    Parameters
    ----------
    keys : pandas.Index of shape (n_rows,)
        Name of the series of each row; a MultiIndex for names of several parts.
    what : str
        What the keys are called in error messages.

    Returns
    -------
    Series
    """
    missing = keys.to_frame().isna().to_numpy().any(axis=1)
    if missing.any():
        raise ValueError(f"{what} must not be missing, as in row {missing.argmax()}.")
    codes, unique = pd.factorize(keys)
    order = np.argsort(codes, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))]).astype(np.intp)
    return Series(order, offsets, unique.set_names(keys.names))


def series_of_table(X, groups, n_rows):
    """Series by `groups`, or by the MultiIndex of a frame, or the table as one."""
    if groups is not None:
        return find_series(_check_groups(groups, n_rows), "groups")
    index = getattr(X, "index", None)
    if getattr(index, "nlevels", 1) == 1:
        return Series(np.arange(n_rows), np.array([0, n_rows]), pd.Index([0]))
    series = find_series(index.droplevel(-1), "the series in the index of X")
    check_time(series, index.get_level_values(-1))
    return series


def check_time(series, time):
    """Refuse times that do not increase within each series.

    Parameters
    ----------
    series : Series
    time : pandas.Index of shape (n_rows,)

    Raises
    ------
    ValueError
        Naming the series and the time.
    """
    missing = time.isna()
    if missing.any():
        raise ValueError(f"the time of row {missing.argmax()} is missing.")
    time = time[series.order]
    is_later = np.asarray(time[1:] > time[:-1], dtype=bool)
    is_wrong = (series.steps[1:] > 0) & ~is_later
    if is_wrong.any():
        at = is_wrong.argmax() + 1
        before, now = time[at - 1], time[at]
        fault = f"{now} twice" if before == now else f"{now} after {before}"
        raise ValueError(
            f"series {series.name_at(at)} has the time {fault}; sort the rows by time "
            "and keep one row for each time."
        )


def _check_groups(groups, n_rows):
    if np.ndim(groups) != 1:
        raise ValueError(
            f"groups must be 1D, one name for each row; got {np.ndim(groups)}D."
        )
    if len(groups) != n_rows:
        raise ValueError(f"groups has {len(groups)} entries, X has {n_rows} rows.")
    return pd.Index(groups)
