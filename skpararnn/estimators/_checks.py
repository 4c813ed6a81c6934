"""Checks at the door of an estimator, beside those of the sequences themselves."""

import warnings

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ..utils._sequences import refuse_kinds, refuse_masked


def columns_of(X):
    """What scikit-learn records of the columns of X: their number and names."""
    recorder = BaseEstimator()  # self changes only when the whole fit has succeeded
    validate_data(recorder, X, skip_check_array=True)
    return vars(recorder)


def check_weight(weight, n):
    """Weights as floats (n,), or None if there are none."""
    if weight is None:
        return None
    refuse_masked(weight, "sample_weight")
    weight = np.asarray(weight)
    refuse_kinds(weight, "sample_weight")
    try:
        weight = weight.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"sample_weight must hold numbers: {error}.") from error
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise ValueError(
            f"sample_weight has shape {weight.shape}, expected ({n},): one weight for "
            "each sample."
        )
    bad = ~(np.isfinite(weight) & (weight >= 0))
    if bad.any():
        raise ValueError(
            f"sample_weight must be finite and not negative, sample {bad.argmax()} has "
            f"{weight[bad.argmax()]}."
        )
    if not weight.any():
        raise ValueError("sample_weight is zero for every sample: nothing to fit.")
    return weight


def refuse_what_is_no_target(y, name):
    """Refuse masked targets and, where the type tells, dates and complex numbers."""
    refuse_masked(y, name)
    if hasattr(y, "dtype"):
        refuse_kinds(y, name)


def warn_if_transposed(sequences):
    """Warn if time and features seem to have changed places."""
    T, n_features = sequences.n_timesteps, sequences.n_features
    if T is not None and n_features > max(64, T):
        warnings.warn(
            f"X has {T} time steps of {n_features} features. If it is ordered "
            "(n_samples, n_features, n_timesteps), pass X.transpose(0, 2, 1).",
            stacklevel=5,
        )
