"""The table of cells: the single place where they differ above their ops."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from skpararnn.ops import gru, lru, lstm, rnn
from skpararnn.ops._lru import CANDIDATES
from skpararnn.ops._rnn import ACTIVATIONS


@dataclass(frozen=True)
class CellSpec:
    """What a layer, and what stands above it, need to know about a cell.

    Parameters
    ----------
    op : callable
        The function of :mod:`skpararnn.ops`.
    gates : str
        A letter for each gate, in the order of the rows of `weight_x` and `bias`.
    recurrent : str
        The gates with a recurrent matrix, in the order of `weight_h`.
    states : tuple of str
        What the cell carries from step to step; the op takes a first value for each
        (h0, c0) and returns the last ones.
    options : mapping of str to tuple
        Arguments of the op that a user chooses, with the values they may have.
    biased : str
        The gates that have a bias; all by default.
    extra_bias : mapping of str to str
        Further biases of shape (d,), each with the option that has to be on for it.
    highway : str
        The gate that ``candidate="highway"`` replaces by the layer's input.
    chrono : mapping of str to int
        The gates whose bias ``init="chrono"`` sets: +1 for one that keeps, -1 for one
        that writes.
    forget : str
        The gate whose bias `forget_bias` sets.
    """

    op: Callable
    gates: str
    recurrent: str
    states: tuple[str, ...] = ("h",)
    options: Mapping[str, tuple] = field(default_factory=dict)
    biased: str = ""
    extra_bias: Mapping[str, str] = field(default_factory=dict)
    highway: str = ""
    chrono: Mapping[str, int] = field(default_factory=dict)
    forget: str = ""

    def __post_init__(self):
        object.__setattr__(self, "biased", self.biased or self.gates)


CELLS = {
    "rnn": CellSpec(
        rnn,
        gates="a",
        recurrent="a",
        options={"activation": tuple(ACTIVATIONS)},
    ),
    "lstm": CellSpec(
        lstm,
        gates="ifgo",
        recurrent="ifgo",
        states=("h", "c"),
        chrono={"f": +1, "i": -1},
        forget="f",
    ),
    "gru": CellSpec(
        gru,
        gates="rzn",
        recurrent="rzn",
        options={"reset_after": (True, False)},
        extra_bias={"bias_q": "reset_after"},
        chrono={"z": +1},
    ),
    "lru": CellSpec(
        lru,
        gates="cf",
        recurrent="f",
        options={"candidate": CANDIDATES},
        biased="f",
        highway="c",
        chrono={"f": -1},
    ),
}
