"""What joins the blocks after the last layer: the aggregation W_f of the paper.

Applied once, to the vector that the head would read. Without one, and with "linear",
the output of the net is an exact sum over blocks; with "fc" and "ffn" it is not.

Source: Cai, Li, Huang and Li, "ParaRNN" (arXiv 2605.02692), equations 5, 7 and 8 and
section 6.3, which leaves the inner width of "ffn" open.
"""

import torch
from torch.nn.functional import linear as affine

from ..ops._checks import check_choice, check_positive_int
from ._modules import linear


class Linear(torch.nn.Module):
    """``W_f h``, without a bias."""

    def __init__(self, width, d_agg, d_ff, generator):
        super().__init__()
        self.weight_f = linear(width, d_agg, bias=False, generator=generator).weight

    def forward(self, h):
        """Map ``(..., width)`` to ``(..., d_agg)``."""
        return affine(h, self.weight_f)


class FullyConnected(torch.nn.Module):
    """``relu(W_f h + b_f)``."""

    def __init__(self, width, d_agg, d_ff, generator):
        super().__init__()
        layer = linear(width, d_agg, generator=generator)
        self.weight_f, self.bias_f = layer.weight, layer.bias

    def forward(self, h):
        """Map ``(..., width)`` to ``(..., d_agg)``."""
        return torch.relu(affine(h, self.weight_f, self.bias_f))


class FeedForward(torch.nn.Module):
    """``W_2 relu(W_1 h + b_1) + b_2`` with inner width d_ff."""

    def __init__(self, width, d_agg, d_ff, generator):
        super().__init__()
        self.inner = linear(width, d_ff, generator=generator)
        self.outer = linear(d_ff, d_agg, generator=generator)

    def forward(self, h):
        """Map ``(..., width)`` to ``(..., d_agg)``."""
        return self.outer(torch.relu(self.inner(h)))


AGGREGATIONS = {
    None: None,
    "linear": Linear,
    "fc": FullyConnected,
    "ffn": FeedForward,
}


def make_aggregation(aggregation, width, d_agg, d_ff, generator):
    """Return the module of a row of `AGGREGATIONS` and its output width.

    Parameters
    ----------
    aggregation : {None, "linear", "fc", "ffn"}
    width : int
        Of the vector it reads.
    d_agg : int, optional
        Of the vector it returns; `width` if not given.
    d_ff : int, optional
        Inner width of "ffn"; ``4 * width`` if not given.
    generator : torch.Generator

    Raises
    ------
    ValueError
        For an unknown name, and for a width that the aggregation does not have.
    """
    check_choice("aggregation", aggregation, AGGREGATIONS)
    if d_agg is not None and aggregation is None:
        raise ValueError(f"d_agg={d_agg} needs an aggregation; got aggregation=None")
    if d_ff is not None and aggregation != "ffn":
        raise ValueError(
            f"d_ff={d_ff} needs aggregation='ffn'; got aggregation={aggregation!r}"
        )
    if aggregation is None:
        return torch.nn.Identity(), width
    d_agg = width if d_agg is None else check_positive_int("d_agg", d_agg)
    d_ff = 4 * width if d_ff is None else check_positive_int("d_ff", d_ff)
    return AGGREGATIONS[aggregation](width, d_agg, d_ff, generator), d_agg
