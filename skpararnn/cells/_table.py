"""The table of cells: the single place where they differ above their ops."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..ops import gru, lru, lstm, rnn
from ..ops._checks import BOOLEANS, check_choice
from ..ops._lru import CANDIDATES
from ..ops._rnn import ACTIVATIONS


class CellSpec(NamedTuple):
    """What a layer, and what stands above it, need to know about a cell.

    Parameters
    ----------
    op : callable
        The function of :mod:`skpararnn.ops`.
    gates : str
        A letter for each gate, in the order of the rows of the op's `weight_x` and
        `bias`.
    recurrent : str
        The gates with a recurrent matrix, in the order of the op's `weight_h`.
    biased : str
        The gates whose bias is a parameter.
    states : tuple of str, default=("h",)
        What is carried from step to step. The op takes a first value for each (h0, c0)
        and returns the last ones.
    options : dict of str to tuple, default={}
        Arguments of the op that the user chooses, with the values they may have; the
        first is the default.
    extra_bias : dict of str to str, default={}
        Further biases of shape (d,), each with the option that has to be on for it.
    highway : str, default=""
        The gate that ``candidate="highway"`` replaces by the layer's input.
    chrono : dict of str to int, default={}
        The gates whose bias ``init="chrono"`` sets: +1 for one that keeps, -1 for one
        that writes.
    forget : str, default=""
        The gate whose bias `forget_bias` sets.

    Examples
    --------
    >>> from skpararnn.cells import CELLS
    >>> CELLS["gru"].gates, CELLS["lstm"].states
    ('rzn', ('h', 'c'))
    """

    op: Callable
    gates: str
    recurrent: str
    biased: str
    states: tuple[str, ...] = ("h",)
    options: Mapping[str, tuple] = {}
    extra_bias: Mapping[str, str] = {}
    highway: str = ""
    chrono: Mapping[str, int] = {}
    forget: str = ""


def check_options(cell, given):
    """Hold options against the table.

    Parameters
    ----------
    cell : str
        A row of `CELLS`.
    given : dict
        Options by name, those of other cells too: whoever compares cells may hand the
        same options to all of them.

    Returns
    -------
    options : dict
        All options of this cell.

    Raises
    ------
    TypeError
        For a name that no cell has.
    ValueError
        For a value that no cell with this option has, or not this cell.
    """
    own = CELLS[cell].options
    for name, value in given.items():
        check_choice(name, value, own.get(name) or _values_of_all_cells(name))
    return {name: given.get(name, values[0]) for name, values in own.items()}


def _values_of_all_cells(name):
    """Every value that some cell allows for an option."""
    tables = [spec.options for spec in CELLS.values()]
    values = dict.fromkeys(v for options in tables for v in options.get(name, ()))
    if not values:
        known = ", ".join(sorted({known for options in tables for known in options}))
        raise TypeError(
            f"unknown argument {name!r}; the cells have the options {known}"
        )
    return values


CELLS = {
    "rnn": CellSpec(
        rnn,
        gates="a",
        recurrent="a",
        biased="a",
        options={"activation": tuple(ACTIVATIONS)},
    ),
    "lstm": CellSpec(
        lstm,
        gates="ifgo",
        recurrent="ifgo",
        biased="ifgo",
        states=("h", "c"),
        chrono={"f": +1, "i": -1},
        forget="f",
    ),
    "gru": CellSpec(
        gru,
        gates="rzn",
        recurrent="rzn",
        biased="rzn",
        options={"reset_after": BOOLEANS},
        extra_bias={"bias_q": "reset_after"},
        chrono={"z": +1},
    ),
    "lru": CellSpec(
        lru,
        gates="cf",
        recurrent="f",
        biased="f",
        options={"candidate": CANDIDATES},
        highway="c",
        chrono={"f": -1},
    ),
}
