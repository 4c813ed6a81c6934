"""Answers of a module for sequences, each row as if it were alone."""

import numpy as np
import torch

from ..utils._sequences import all_finite
from . import _device
from ._data import round_up


def infer(function, sequences, *, device, per_step=False):
    """Apply a module to sequences, in batches of fixed shape.

    The shape of the batch in which a row is computed depends on nothing but its own
    length, so that its answer does not depend on the other rows of the call. Rows that
    a batch lacks are sequences of length 0, which a kernel passes over.

    Parameters
    ----------
    function : callable
        Takes x (N, T, d_in) and lengths (N,); returns (N, ...) or (N, T, ...).
    sequences : Sequences
    device : str
    per_step : bool, default=False
        Whether the answers have a time axis.

    Returns
    -------
    ndarray of shape (n_samples, ...) or (sum of lengths, ...)

    Raises
    ------
    ValueError
        Naming the first sample whose answer is not finite.
    """
    answers, device = None, _device.as_torch(device)
    with torch.inference_mode():
        for rows, n_rows, T in _plan(sequences.lengths):
            x, lengths = _fixed_batch(sequences, rows, n_rows, T)
            output = function(x.to(device), lengths.to(device)).cpu().numpy()
            rows, output = _real(sequences, rows, output, per_step)
            if answers is None:
                n = len(sequences.values if per_step else sequences)
                answers = np.empty((n, *output.shape[1:]), output.dtype)
            answers[rows] = output
    _check_finite(answers, sequences, per_step)
    return answers


def _real(sequences, rows, output, per_step):
    """What is real of an output, and which of the answers it is."""
    output = output[: len(sequences.lengths[rows])]
    if not per_step:
        return rows, output
    at, real = sequences.places(rows, output.shape[1])
    return at[real], output[real]


def _check_finite(answers, sequences, per_step):
    if all_finite(answers):
        return
    first = np.argwhere(~np.isfinite(answers))[0, 0]
    sample = np.searchsorted(sequences.offsets, first, "right") - 1
    raise ValueError(
        f"the states of the net overflow for sample {sample if per_step else first} of "
        "X: its values are too large, or with an unbounded activation its steps too "
        "many. Scale the features, or use activation='tanh'."
    )


def _plan(lengths):
    """Rows of each batch, and its shape: how many rows and steps it is made to have."""
    ceilings = round_up(lengths)
    for T in np.unique(ceilings).tolist():
        n_rows = _rows_at_once(T)
        members = np.flatnonzero(ceilings == T)
        for start in range(0, len(members), n_rows):
            yield _as_slice(members[start : start + n_rows]), n_rows, T


def _rows_at_once(T):
    """Rows of a batch of T steps: many, for few calls, but of bounded memory.

    Of 32, 64, ... rows the matrix products treat each alike, wherever it stands.
    """
    if T > 2**12:
        return 32 if T <= 2**14 else 1
    return min(max(2**14 >> (T - 1).bit_length(), 64), 512)


def _as_slice(rows):
    """Ascending row numbers as a slice if none is left out: slices are not copied."""
    first, last = rows[0], rows[-1]
    return slice(first, last + 1) if last - first == len(rows) - 1 else rows


def _fixed_batch(sequences, rows, n_rows, T):
    """Tensors x and lengths of `n_rows`; those beyond the given ones have no step."""
    x, lengths = sequences.padded(rows, T)
    if len(lengths) < n_rows:
        x, lengths = _more_rows(x, n_rows), _more_rows(lengths, n_rows)
    return torch.from_numpy(x), torch.from_numpy(lengths)


def _more_rows(array, n_rows):
    more = np.zeros((n_rows, *array.shape[1:]), array.dtype)
    more[: len(array)] = array
    return more
