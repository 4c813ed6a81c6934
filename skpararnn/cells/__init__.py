"""One recurrent layer: which cells there are, and the module that owns parameters."""

from skpararnn.cells._block import BlockRecurrentCell
from skpararnn.cells._init import INITS
from skpararnn.cells._table import CELLS, CellSpec

__all__ = ["CELLS", "INITS", "BlockRecurrentCell", "CellSpec"]
