"""The torch module of an estimator: making it, its device, its weights as arrays."""

import copy
import warnings

import torch

from ..nets import RecurrentNet


def make_module(architecture, seed):
    """Make the torch module of a net, with initial values drawn from a seed."""
    arguments = architecture | {"dtype": getattr(torch, architecture["dtype"])}
    generator = torch.Generator().manual_seed(int(seed))
    return RecurrentNet(**arguments, generator=generator)


def resolve_device(device):
    """Name the device to compute on.

    Raises
    ------
    ValueError
        If the device is unknown, or asks for CUDA where there is none.
    """
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        kind = None
    if kind not in ("cpu", "cuda"):
        raise ValueError(
            f"device must be 'auto', 'cpu', 'cuda' or 'cuda:<number>', got {device!r}."
        )
    if kind == "cuda" and not torch.cuda.is_available():
        raise ValueError(
            f"device={device!r} was asked for, but torch finds no CUDA device here; "
            "use device='auto' or device='cpu'."
        )
    return "cpu" if kind == "cpu" else str(device)


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


def device_at_hand(device, asked_for):
    """Return the device a model was fitted on, or the CPU if this machine has none.

    Warns
    -----
    UserWarning
        If CUDA was asked for by name.
    """
    if device == "cpu" or torch.cuda.is_available():
        return device
    if asked_for != "auto":
        warnings.warn(
            f"the model was fitted with device={asked_for!r}, but torch finds no CUDA "
            "device here: it predicts on the CPU.",
            stacklevel=4,
        )
    return "cpu"


def module_on(module, device):
    """The module, or a copy of it on another device."""
    return module if device == "cpu" else copy.deepcopy(module).to(device)


def to_numpy(blocks):
    """Tensors in nested lists as arrays in nested lists."""
    if isinstance(blocks, torch.Tensor):
        return blocks.detach().cpu().numpy().copy()
    return [to_numpy(b) for b in blocks]


def weights_to_numpy(module):
    """Every parameter of a module as an array of its own."""
    return {name: w.cpu().numpy().copy() for name, w in module.state_dict().items()}
