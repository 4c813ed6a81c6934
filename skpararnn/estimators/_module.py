"""The torch module of an estimator: making it, moving it, its weights as arrays."""

import copy

import torch

from ..nets import RecurrentNet
from . import _device


def make_module(architecture, seed):
    """Make the torch module of a net, with initial values drawn from a seed."""
    arguments = architecture | {"dtype": getattr(torch, architecture["dtype"])}
    generator = torch.Generator().manual_seed(int(seed))
    return RecurrentNet(**arguments, generator=generator)


@torch.no_grad()
def flat_weights(module):
    """Copy every parameter of a module, all in one row."""
    return torch.nn.utils.parameters_to_vector(module.parameters())


@torch.no_grad()
def restore_weights(module, flat):
    """Set the parameters of a module to a copy that `flat_weights` made."""
    parameters = list(module.parameters())
    parts = flat.split([parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))


def load_weights(module, weights):
    """Set the parameters of a module."""
    module.load_state_dict(
        {name: torch.as_tensor(w) for name, w in weights.items()}, strict=True
    )


def module_on(module, device):
    """The module, or a copy of it on a card, whose memory is free when it is gone."""
    if device == "cpu":
        return module
    return copy.deepcopy(module).to(_device.as_torch(device))


def to_numpy(blocks):
    """Tensors in nested lists as arrays in nested lists."""
    if isinstance(blocks, torch.Tensor):
        return blocks.detach().cpu().numpy().copy()
    return [to_numpy(b) for b in blocks]


def weights_to_numpy(module):
    """Every parameter of a module as an array of its own."""
    return {name: w.cpu().numpy().copy() for name, w in module.state_dict().items()}
