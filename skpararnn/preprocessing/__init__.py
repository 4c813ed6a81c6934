"""From tables and lists to sequences, and from sequences to scaled or padded ones."""

from ._frame import sequences_from_frame
from ._padder import SequencePadder
from ._scaler import SequenceScaler
from ._windows import TrailingWindows, make_windows

__all__ = [
    "SequencePadder",
    "SequenceScaler",
    "TrailingWindows",
    "make_windows",
    "sequences_from_frame",
]
