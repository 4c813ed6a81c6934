"""What the implementations of the scan share: arguments, and the input's projection."""

from typing import NamedTuple

import torch

from ._loop import blank_padding


class Inputs(NamedTuple):
    """The tensors that both operators take, as the kernels read them: contiguous."""

    x: torch.Tensor  # (N, T, d_in)
    weight_x: torch.Tensor  # (G, d, d_in), without the row of a highway's candidate
    weight_h: torch.Tensor  # (R, K, d_s, d_s)
    bias: torch.Tensor  # (G, d), as weight_x
    bias_q: torch.Tensor | None  # (d,)
    h0: torch.Tensor | None  # (N, d)
    c0: torch.Tensor | None  # (N, d)
    lengths: torch.Tensor | None  # (N,), int64


class How(NamedTuple):
    """The options that both operators take."""

    cell: str
    option: str
    reverse: bool
    outputs: str

    @property
    def code(self):
        """The name that the kernels have for the cell with its option."""
        return f"{self.cell}_{self.option}" if self.option else self.cell

    @property
    def highway(self):
        """Whether x is the candidate; its row of weights and bias is not read."""
        return self.option == "highway"


def readable(tensors, how):
    """Return the inputs, contiguous, without the rows that are not read."""
    inputs = Inputs(*map(contiguous, tensors))
    if not how.highway:
        return inputs
    return inputs._replace(weight_x=inputs.weight_x[1:], bias=inputs.bias[1:])


def contiguous(tensor):
    """Return the numbers side by side, with put-off negations done; None for None."""
    return None if tensor is None else tensor.resolve_neg().contiguous()


def empty_gradients(tensors, wanted):
    """Allocate what ``scan_backward`` returns."""
    x, with_gradients = tensors[0], tensors[: len(wanted)]
    pairs = zip(with_gradients, wanted, strict=True)
    return tuple(x.new_empty(t.shape) if want else None for t, want in pairs)


def of_read_rows(grads, how):
    """Return the gradients of what `readable` left; those of other rows are zero."""
    if not how.highway:
        return grads
    dx, dweight_x, dweight_h, dbias, *others = grads
    dweight_x, dbias = _without_first(dweight_x), _without_first(dbias)
    return dx, dweight_x, dweight_h, dbias, *others


def _without_first(grad):
    if grad is None:
        return None
    grad[0] = 0.0
    return grad[1:]


# -- the projection --------------------------------------------------------------------

# The products are written to `out` or in place: autocast, which would make them half as
# wide as a kernel expects, leaves such calls alone.


def new_p(x, weight_x):
    """Allocate the input part of the pre-activations, ``(N, T, G, d)``."""
    return x.new_empty(*x.shape[:2], *weight_x.shape[:2])


def project(inputs, p):
    """Write the input part of the pre-activations."""
    x, W, b = inputs.x, inputs.weight_x, inputs.bias
    out = p.view(-1, b.numel())
    torch.addmm(b.view(-1), x.flatten(0, 1), W.flatten(0, 1).T, out=out)


def project_back(inputs, dp, dx, dweight_x, dbias, how):
    """Write dx, on top of the candidate's part if there is one; add to the others."""
    x, W = inputs.x, inputs.weight_x.flatten(0, 1)
    dp = dp.view(-1, len(W))
    if dx is not None:
        dx.view(-1, x.shape[2]).addmm_(dp, W, beta=1.0 if how.highway else 0.0)
    if dweight_x is not None:
        x = blank_padding(x, inputs.lengths).flatten(0, 1)
        dweight_x.view(len(W), -1).addmm_(dp.T, x)
    if dbias is not None:
        dbias.view(-1).add_(dp.sum(dim=0))
