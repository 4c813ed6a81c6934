"""Padding: sequences of any lengths as one 3-D array."""

import warnings
from numbers import Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..utils import _parameters as rule
from ._base import SequenceTransformer


def _is_finite_or_nan(value):
    is_number = isinstance(value, Real) and not isinstance(value, (bool, np.bool_))
    return is_number and not np.isinf(value)


SIDES = ("left", "right")
RULES = {
    "length": rule.any_of(rule.none(), rule.choice("batch"), rule.integer(1)),
    "side": rule.choice(*SIDES),
    "value": (_is_finite_or_nan, "a finite number or NaN"),
    "truncate": rule.choice(*SIDES),
}


class SequencePadder(SequenceTransformer, auto_wrap_output_keys=None):
    """Pad or cut sequences to one length.

    The estimators of this package read lists themselves, so this is for whatever else
    needs a 3-D array: files, other nets, a fixed number of columns after flattening.

    Parameters
    ----------
    length : int, "batch" or None, default=None
        Time steps of the result. None takes the longest sequence of `fit`, and warns
        when a later one must be cut; ``"batch"`` takes the longest sequence of each
        call, so nothing is ever cut.
    side : {"left", "right"}, default="left"
        Where padding goes: before the first step or after the last.
    value : float, default=nan
        What padded steps are filled with, a finite number or NaN. Only NaN is known as
        padding to the estimators and transformers of this package.
    truncate : {"left", "right"}, default="left"
        Which steps of too long a sequence are dropped: the first or the last.

    Attributes
    ----------
    length_ : int or None
        Time steps of the result; None with ``length="batch"``.
    n_features_in_ : int
        Number of features of a step; number of columns if fitted on a 2-D array.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns; only if fitted on a frame with names.

    See Also
    --------
    SequenceScaler : Bring features to mean 0 and standard deviation 1.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn.preprocessing import SequencePadder
    >>> X = [np.array([1.0, 2.0, 3.0]), np.array([4.0])]
    >>> padder = SequencePadder().fit(X)
    >>> padder.transform(X).shape
    (2, 3, 1)
    >>> padder.transform(X)[:, :, 0]
    array([[ 1.,  2.,  3.],
           [nan, nan,  4.]])
    >>> SequencePadder(length=2, side="right", value=0).fit_transform(X)[:, :, 0]
    array([[2., 3.],
           [4., 0.]])
    """

    def __init__(self, length=None, *, side="left", value=np.nan, truncate="left"):
        self.length = length
        self.side = side
        self.value = value
        self.truncate = truncate

    def fit(self, X, y=None):
        """Learn the length.

        Parameters
        ----------
        X : list of arrays of shape (n_timesteps_i, n_features) or \
                (n_timesteps_i,), or array-like of shape \
                (n_samples, n_timesteps, n_features) or (n_samples, n_timesteps)
            Sequences. Steps of a 3-D array that are NaN in all features, at the start
            or the end, are padding.
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            If a parameter is not as described, or naming the sample and step of a NaN,
            infinity or empty sequence.
        """
        rule.check_parameters(RULES, self.get_params(deep=False))
        longest = int(self._read(X, reset=True).lengths.max())
        self.length_ = {None: longest, "batch": None}.get(self.length, self.length)
        return self

    def transform(self, X):
        """Pad or cut sequences to `length_`.

        Parameters
        ----------
        X : like in fit
            Sequences.

        Returns
        -------
        ndarray of shape (n_samples, length_, n_features)
            float32 if X is, else float64. A 2-D array becomes a 3-D one with one
            feature.

        Raises
        ------
        ValueError, TypeError
            As in `fit`, or if the number of features is another one.
        """
        check_is_fitted(self)
        sequences = self._read(X, reset=False)
        lengths = sequences.lengths
        T = lengths.max() if self.length_ is None else self.length_
        if self.length is None and lengths.max() > T:
            self._warn_of_cut(lengths, T)

        kept = np.minimum(lengths, T)
        row = np.repeat(np.arange(len(sequences)), lengths)
        drops_first, pads_first = self.truncate == "left", self.side == "left"
        is_kept = _at_end(sequences.steps, lengths[row], kept[row], last=drops_first)
        is_real = _at_end(np.arange(T), T, kept[:, None], last=pads_first)
        shape = len(sequences), T, sequences.n_features
        padded = np.full(shape, self.value, sequences.values.dtype)
        padded[is_real] = sequences.values[is_kept]
        return padded

    def _warn_of_cut(self, lengths, T):
        end = {"left": "first", "right": "last"}[self.truncate]
        warnings.warn(
            f"{(lengths > T).sum()} of {len(lengths)} sequences are longer than the "
            f"{T} steps of the longest sequence in fit and lose their {end} steps (the "
            f"longest has {lengths.max()}); length='batch' keeps all steps.",
            UserWarning,
            stacklevel=3,
        )


def _at_end(step, length, n, *, last):
    """Whether a step is among the last (or else the first) n of a sequence."""
    return step >= length - n if last else step < n
