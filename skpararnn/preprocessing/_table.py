"""Tables: what can be read as rows of numbers, and what cannot."""

import numpy as np
import pandas as pd
from pandas.api.types import is_complex_dtype, is_numeric_dtype

from ..utils._sequences import refuse_kinds, refuse_masked

# for scikit-learn's checks; check_finite follows them, because it names the row
AS_TABLE = {"dtype": [np.float64, np.float32], "ensure_all_finite": False}


def refuse_what_is_no_table(X):
    """Refuse what scikit-learn reads as something else, or without naming the place."""
    refuse_masked(X, "X")
    if isinstance(X, pd.DataFrame):
        refuse_text_and_dates(X)
    elif isinstance(X, (list, tuple)):
        _refuse_unequal_rows(X)
    elif isinstance(X, np.ndarray):
        refuse_kinds(X, "X")


def refuse_text_and_dates(frame):
    """Name the first column of a frame that does not hold real numbers."""
    for name, dtype in frame.dtypes.items():
        if not is_numeric_dtype(dtype) or is_complex_dtype(dtype):
            raise ValueError(
                f"column {name!r} has the type {dtype} and cannot be a feature: turn "
                "it into real numbers or leave it out."
            )


def check_finite(table, X):
    """Name the row and column of the first NaN or infinity in a table read from X."""
    is_bad = ~np.isfinite(table)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        value = "NaN" if np.isnan(table[row, column]) else "infinity"
        name = X.columns[column] if isinstance(X, pd.DataFrame) else column
        raise ValueError(
            f"Input X contains {value} in row {row}, column {name}. Fill missing "
            "values before windows are cut: in a window they could not be told from "
            "padding."
        )


def _refuse_unequal_rows(X):
    shapes = {np.shape(row) for row in X}
    if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
        raise ValueError(
            "X is a list of unequal rows or of several tables; windows are cut from "
            "one table of shape (n_rows, n_features): stack the tables and name their "
            "series in groups."
        )
