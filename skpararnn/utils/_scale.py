"""Scales: what values are divided by, and when a constant is left alone."""

import numpy as np


def scale_or_one(std, mean):
    """Standard deviations to divide by, 1 for what is constant but for rounding.

    Parameters
    ----------
    std : ndarray of float64
        Standard deviations.
    mean : ndarray of float64 of the same shape
        Means, whose rounding is no spread.

    Returns
    -------
    ndarray of the same shape
    """
    rounding = 10 * np.finfo(np.float64).eps * np.abs(mean)
    return np.where(std <= rounding, 1.0, std)
