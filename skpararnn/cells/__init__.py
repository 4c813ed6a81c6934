"""One recurrent layer: which cells there are, and the module that owns parameters."""

from ._block import BlockRecurrentCell
from ._init import INITS
from ._table import CELLS, CellSpec

__all__ = ["CELLS", "INITS", "BlockRecurrentCell", "CellSpec"]
