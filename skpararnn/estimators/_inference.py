"""Answers of a module for sequences, each row as if it were alone."""

import numpy as np
import torch


def infer(function, sequences, *, device, per_step=False):
    """Apply a module to sequences, in batches of fixed shape.

    The shape of the batch in which a row is computed depends on nothing but its own
    length, so that its answer does not depend on the other rows of the call.

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
    lengths = sequences.lengths
    ceilings = _round_up(lengths)
    answers = [None] * len(lengths)
    with torch.inference_mode():
        for T in np.unique(ceilings):
            n_rows = _rows_at_once(T)
            members = np.flatnonzero(ceilings == T)
            for start in range(0, len(members), n_rows):
                rows = members[start : start + n_rows]
                output = function(*_fixed_batch(sequences, rows, n_rows, T, device))
                output = output[: len(rows)].cpu().numpy()
                for row, answer in zip(rows, output, strict=True):
                    answers[row] = answer[: lengths[row]] if per_step else answer
    _check_finite(answers)
    return np.concatenate(answers) if per_step else np.stack(answers)


def _check_finite(answers):
    for sample, answer in enumerate(answers):
        if not np.isfinite(answer).all():
            raise ValueError(
                f"the states of the net overflow for sample {sample} of X: its values "
                "are too large, or with an unbounded activation its steps too many. "
                "Scale the features, or use activation='tanh'."
            )


def _rows_at_once(T):
    # of 32, 64, ... rows the matrix products treat each alike, wherever it stands
    return 64 if T <= 2**12 else 32 if T <= 2**14 else 1


def _fixed_batch(sequences, rows, n_rows, T, device):
    """Rows in a batch of `n_rows`; those missing repeat the last one."""
    filled = np.concatenate([rows, np.repeat(rows[-1], n_rows - len(rows))])
    x, lengths = sequences.padded(filled, int(T))
    return torch.from_numpy(x).to(device), torch.from_numpy(lengths).to(device)


def _round_up(lengths):
    """The next of 1..8, 10, 12, 14, 16, 20, ...: four values an octave."""
    step = 2 ** np.maximum(np.ceil(np.log2(lengths)).astype(int) - 3, 0)
    return -(-lengths // step) * step
