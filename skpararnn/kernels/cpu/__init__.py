"""The loops over time in C++ for the CPU, one library per instruction set."""

from ._library import (
    CELL_CODES,
    INSTRUCTION_SETS,
    OUTPUT_CODES,
    Scan,
    available,
    backward,
    built,
    forward,
    load,
    warn_once_if_missing,
)
from ._stepper import GATES, Stepper, tanh

__all__ = [
    "CELL_CODES",
    "GATES",
    "INSTRUCTION_SETS",
    "OUTPUT_CODES",
    "Scan",
    "Stepper",
    "available",
    "backward",
    "built",
    "forward",
    "load",
    "tanh",
    "warn_once_if_missing",
]
