"""The two families of nets: which cell they have, and its parameters."""

from dataclasses import dataclass


@dataclass(kw_only=True, eq=False, repr=False)
class ParaRNNFamily:
    """K small recurrent networks side by side, of RNN, LSTM or GRU cells."""

    cell: str = "rnn"
    activation: str = "tanh"

    def _cell_options(self):
        from ..cells import CELLS

        names = [name for name in CELLS if name != "lru"]
        if self.cell not in names:
            raise ValueError(
                f"cell must be one of {', '.join(map(repr, names))}, got {self.cell!r};"
                " the Light Recurrent Unit is LRUClassifier and LRURegressor."
            )
        return {"cell": self.cell, "activation": self.activation}


@dataclass(kw_only=True, eq=False, repr=False)
class LRUFamily:
    """Light Recurrent Units."""

    d_s: object = 64
    K: int = 1
    candidate: str = "highway"
    lr: float = 0.02  # a gate that writes slowly also learns slowly

    def _cell_options(self):
        return {"cell": "lru", "candidate": self.candidate}
