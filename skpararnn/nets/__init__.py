"""Whole networks: a batch of sequences in, one output a sequence or a step out."""

from ._recurrent import RecurrentNet

__all__ = ["RecurrentNet"]
