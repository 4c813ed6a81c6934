"""Estimators: NumPy in, NumPy out.

=====================  ============================================================
`ParaRNNClassifier`    K small recurrent networks of size d_s side by side (RNN,
                       LSTM or GRU cells), for labels
`ParaRNNRegressor`     the same for numbers
`LRUClassifier`        Light Recurrent Unit, for labels
`LRURegressor`         the same for numbers
=====================  ============================================================
"""

from ._classifier import LRUClassifier, ParaRNNClassifier
from ._regressor import LRURegressor, ParaRNNRegressor

__all__ = [
    "LRUClassifier",
    "LRURegressor",
    "ParaRNNClassifier",
    "ParaRNNRegressor",
]
