"""The loops over time in Triton for CUDA. Importing this folder imports triton."""

from ._cells import CELLS
from ._choice import available, kernel_for
from ._launch import MOST_WEIGHTS

__all__ = ["CELLS", "MOST_WEIGHTS", "available", "kernel_for"]
