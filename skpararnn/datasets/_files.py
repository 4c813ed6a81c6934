"""The formats of the bundled files, which `data/README.rst` describes."""

import gzip
from pathlib import Path

import numpy as np

_DATA = Path(__file__).parent / "data"


def describe(name):
    """Return the page of a data set: columns, origin, licence, citation."""
    return (_DATA / f"{name}.rst").read_text(encoding="utf-8")


def read_columns(filename):
    """Return a transposed table as {column name: its values as they are spelt}."""
    with gzip.open(_DATA / filename, "rt", encoding="utf-8") as lines:
        columns = (line.rstrip("\n").split(",") for line in lines)
        return {name: values for name, *values in columns}


def to_frame(columns):
    """Return columns of text as a DataFrame of int64 and float64 columns."""
    import pandas as pd

    return pd.DataFrame({name: _to_numbers(values) for name, values in columns.items()})


def read_ts(filename):
    """Yield `(values (n_timesteps, n_features), label)` from a UEA `.ts` file."""
    with gzip.open(_DATA / filename, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith(("#", "@")):
                *features, label = line.rstrip("\n").split(":")
                values = [_to_floats(feature.split(",")) for feature in features]
                yield np.column_stack(values), label


def _to_numbers(values):
    try:
        return np.array([int(value) for value in values], dtype=np.int64)
    except ValueError:
        return _to_floats(values)


def _to_floats(values):
    # Python reads to the nearest float, pandas by default to one near it
    return np.array([float(value) for value in values])
