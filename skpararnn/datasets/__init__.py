"""Data sets to try things on: bundled, downloaded, generated.

`load_` reads what is shipped, `fetch_` downloads once and keeps, `make_` generates.
"""

from ._bundled import (
    load_air_quality,
    load_bike_sharing,
    load_cmapss_fd001,
    load_japanese_vowels,
)
from ._ett import fetch_ett
from ._generators import make_adding_problem, make_rnn_process

__all__ = [
    "fetch_ett",
    "load_air_quality",
    "load_bike_sharing",
    "load_cmapss_fd001",
    "load_japanese_vowels",
    "make_adding_problem",
    "make_rnn_process",
]
