"""Recurrent layers as differentiable functions of tensors.

Each op maps a batch of sequences ``(N, T, d_in)`` to its states ``(N, T, d)``. The
recurrent matrix is block diagonal: ``weight_h`` holds K blocks of size d_s per gate and
``d = K * d_s``. Unit j of block k is hidden unit ``k * d_s + j``.
"""

from ._gru import gru
from ._lru import lru
from ._lstm import lstm
from ._rnn import rnn

__all__ = ["gru", "lru", "lstm", "rnn"]
