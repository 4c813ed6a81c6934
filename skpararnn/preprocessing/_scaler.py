"""Scaling: features of sequences with mean 0 and standard deviation 1."""

import numpy as np
from sklearn.base import OneToOneFeatureMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..utils import _parameters as rule
from ..utils._scale import scale_or_one
from ._base import SequenceTransformer

RULES = {
    "with_mean": rule.boolean(),
    "with_std": rule.boolean(),
    "scope": rule.choice("feature", "sequence"),
}


def _scales_features(scaler):
    if scaler.scope == "feature":
        return True
    raise AttributeError(
        "inverse_transform needs scope='feature': with scope='sequence' the mean and "
        "scale of each sequence are not kept."
    )


class SequenceScaler(
    OneToOneFeatureMixin, SequenceTransformer, auto_wrap_output_keys=None
):
    """Bring the features of sequences to mean 0 and standard deviation 1.

    Padding is no data: it enters no mean and stays NaN. X comes back in the container
    it had, a list as a list and a padded array as a padded array.

    Parameters
    ----------
    with_mean : bool, default=True
        Whether to subtract the mean.
    with_std : bool, default=True
        Whether to divide by the standard deviation.
    scope : {"feature", "sequence"}, default="feature"
        What a mean is taken over: all steps of all sequences of `fit`, for each
        feature, or the steps of each sequence by itself, for each feature. The latter
        learns nothing from `fit` and takes level and amplitude of a sequence away from
        the model, which helps where only its shape matters.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Means that are subtracted; 0 with ``with_mean=False``. Only with
        ``scope="feature"``.
    scale_ : ndarray of shape (n_features,)
        Standard deviations that are divided by; 1 with ``with_std=False`` and for
        features that are constant. Only with ``scope="feature"``.
    n_features_in_ : int
        Number of features of a step; number of columns if fitted on a 2-D array.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns; only if fitted on a frame with names.

    See Also
    --------
    TrailingWindows : Windows of a table. Scale the table before, by scikit-learn's
        StandardScaler.

    Notes
    -----
    Each step has the same weight, so long sequences count more than short ones.

    A 2-D array is read as by the estimators: a row is a sequence of one feature. It
    has one mean, over rows and columns, not one for each column.

    Examples
    --------
    >>> import numpy as np
    >>> from skpararnn.preprocessing import SequenceScaler
    >>> X = [np.array([1.0, 3.0]), np.array([5.0, 3.0, 3.0])]
    >>> scaler = SequenceScaler(with_std=False)
    >>> scaler.fit_transform(X)
    [array([-2.,  0.]), array([2., 0., 0.])]
    >>> scaler.mean_
    array([3.])
    >>> scaler.inverse_transform(scaler.transform(X))
    [array([1., 3.]), array([5., 3., 3.])]
    """

    def __init__(self, *, with_mean=True, with_std=True, scope="feature"):
        self.with_mean = with_mean
        self.with_std = with_std
        self.scope = scope

    def fit(self, X, y=None):
        """Learn the mean and standard deviation of each feature.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_timesteps, n_features) or \
                (n_samples, n_timesteps), or list or object array of arrays of shape \
                (n_timesteps_i, n_features) or (n_timesteps_i,)
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
        values = self._read(X, reset=True).values
        if self.scope == "feature":
            means, scales = self._statistics(values, np.array([0, len(values)]))
            self.mean_, self.scale_ = means[0], scales[0]
        return self

    def transform(self, X):
        """Scale sequences.

        Parameters
        ----------
        X : like in fit
            Sequences.

        Returns
        -------
        ndarray, list of ndarray or object array of ndarray
            Of the shape of X, NaN where X was padding; float32 if X is, else float64.

        Raises
        ------
        ValueError, TypeError
            As in `fit`, if the number of features is another one, or naming the sample
            and step of a value whose result overflows.
        """
        check_is_fitted(self)
        sequences = self._read(X, reset=False)
        if self.scope == "feature":
            mean, scale = self.mean_, self.scale_
        else:
            statistics = self._statistics(sequences.values, sequences.offsets)
            mean, scale = (np.repeat(s, sequences.lengths, axis=0) for s in statistics)
        # with `out` NumPy subtracts in float64 and stores float32: no mean is rounded
        # before it meets values that may be nearly equal, and no float64 copy is made
        scaled = np.empty_like(sequences.values)
        half = _half_if_large(scale)
        with np.errstate(over="ignore"):  # named below
            np.multiply(sequences.values, half, out=scaled)
            np.subtract(scaled, mean * half, out=scaled)
            np.divide(scaled, scale * half, out=scaled)
        _refuse_overflow(scaled, sequences, "to be scaled")
        return _like(X, sequences, scaled)

    @available_if(_scales_features)
    def inverse_transform(self, X):
        """Undo the scaling; with ``scope="feature"`` only.

        Parameters
        ----------
        X : like in fit
            Scaled sequences.

        Returns
        -------
        ndarray, list of ndarray or object array of ndarray
            Of the shape of X, NaN where X was padding.
        """
        check_is_fitted(self)
        sequences = self._read(X, reset=False)
        values = np.empty_like(sequences.values)
        half = _half_if_large(self.scale_)
        with np.errstate(over="ignore"):  # named below
            np.multiply(sequences.values, self.scale_ * half, out=values)
            np.add(values, self.mean_ * half, out=values)
            np.divide(values, half, out=values)
        _refuse_overflow(values, sequences, "to be scaled back")
        return _like(X, sequences, values)

    def _statistics(self, values, offsets):
        """Means and scales of stretches of steps, each (n_stretches, n_features)."""
        mean, std = _mean_and_std(values, offsets)
        scale = scale_or_one(std, mean) if self.with_std else np.ones_like(std)
        return mean if self.with_mean else np.zeros_like(mean), scale


def _mean_and_std(values, offsets):
    """Mean and standard deviation of ``values[offsets[i]:offsets[i + 1]]``.

    Both are taken in units of the largest value, so that no sum overflows and no square
    vanishes; units are powers of two, which round nothing.
    """
    lengths = np.diff(offsets)
    largest = np.maximum.reduceat(np.abs(values), offsets[:-1], axis=0)
    unit = np.ldexp(1.0, np.frexp(largest.astype(np.float64))[1] - 1)
    values = values / np.repeat(unit, lengths, axis=0)
    mean = _sums(values, offsets) / lengths[:, None]
    deviation = values - np.repeat(mean, lengths, axis=0)
    std = np.sqrt(_sums(deviation**2, offsets) / lengths[:, None])
    return mean * unit, std * unit


def _half_if_large(scale):
    """Factors that keep differences and products of large values finite."""
    return np.where(scale > 1, 0.5, 1.0)


def _refuse_overflow(values, sequences, fault):
    is_bad = ~np.isfinite(values)
    if is_bad.any():
        at, feature = np.argwhere(is_bad)[0]
        sample = np.searchsorted(sequences.offsets, at, side="right") - 1
        step = sequences.starts[sample] + at - sequences.offsets[sample]
        raise ValueError(
            f"sample {sample}, step {step}, feature {feature} of X is too large "
            f"{fault}: the result does not fit into {values.dtype}."
        )


def _sums(values, offsets):
    # sum(axis=0) adds one row after another, and over 1e5 rows that rounds by 1e4 units
    # in the last place: a constant would seem to vary. reduceat adds in pairs.
    return np.add.reduceat(values, offsets[:-1], axis=0, dtype=np.float64)


def _like(X, sequences, values):
    """Values of all steps in the container and shapes of X."""
    answer = sequences.unflatten(values)
    if sequences.container == "2d":
        return answer[:, :, 0]
    if sequences.container == "3d":
        return answer
    for i, x in enumerate(X):
        answer[i] = answer[i].reshape(np.shape(x))
    return answer
