"""Parts of a net that draw from a generator of their own, never from the global one."""

import math

import torch

from ..cells._init import uniform_within


def linear(d_in, d_out, *, bias=True, generator):
    """Return a ``torch.nn.Linear`` with all values from U(-1/sqrt(d_in), 1/sqrt(d_in)).

    Its own constructor would draw them from torch's global generator. It is float64,
    so that the net it belongs to rounds once.
    """
    layer = torch.nn.utils.skip_init(
        torch.nn.Linear, d_in, d_out, bias=bias, dtype=torch.float64
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            bound = 1.0 / math.sqrt(d_in)
            parameter.copy_(uniform_within(bound, parameter.shape, generator))
    return layer


class Dropout(torch.nn.Module):
    """Zero each number with probability p in training and scale the rest by 1/(1-p).

    Parameters
    ----------
    p : float
        In [0, 1).
    seed : int
        Where the private generator starts. It is not part of the state dict.

    Attributes
    ----------
    generator : torch.Generator or None
        The private generator, on the device of the last mask; None before the first.
    """

    def __init__(self, p, seed):
        super().__init__()
        self.p = p
        self.reseed(seed)

    def reseed(self, seed):
        """Start the private generator anew."""
        self.seed = seed
        self.generator = None

    def forward(self, x):
        """Return x with the mask of this call; x itself outside training."""
        if not self.training or self.p == 0.0:
            return x
        generator = self._generator_on(x.device)
        # drawn in the logical order of x, whatever its strides are
        u = torch.rand(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        return torch.where(u >= self.p, x / (1.0 - self.p), 0.0)

    def _generator_on(self, device):
        if self.generator is None or self.generator.device != device:
            self.generator = torch.Generator(device).manual_seed(self.seed)
        return self.generator

    def extra_repr(self):
        """Return what print shows between the brackets."""
        return f"p={self.p}"
