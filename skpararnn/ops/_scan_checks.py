"""What the operators ``scan`` and ``scan_backward`` ask of their arguments.

The ops have checked their own. But anybody may call an operator of torch, compiled code
has not looked at the numbers in `lengths`, and the kernels read memory by these shapes
and types.
"""

import torch

from ..kernels.cpu import GATES
from ._checks import FLOATS, OUTPUTS, check_choice, check_lengths_fit

N_GRADIENTS = 7  # of the tensors but lengths


def check_forward(*arguments):
    """Check what both operators take.

    Parameters
    ----------
    *arguments : x, weight_x, weight_h, bias, bias_q, h0, c0, lengths, cell, option,
        reverse, outputs

    Raises
    ------
    ValueError
        Naming the tensor, its type and shape, and what they should be; or the option.
    """
    x, weight_x, weight_h, bias, bias_q, h0, c0, lengths, *how = arguments
    cell, option, _, outputs = how
    code, is_highway = f"{cell}_{option}" if option else cell, option == "highway"
    check_choice("scan's cell and option", code, tuple(GATES))
    check_choice("scan's outputs", outputs, OUTPUTS)
    floats = FLOATS if x.device.type == "cpu" else (*FLOATS, torch.bfloat16)
    if x.dim() != 3 or x.dtype not in floats:
        raise ValueError(
            "scan expects x as float32 or float64 of shape (N, T, d_in); got "
            f"{x.dtype} of shape {tuple(x.shape)}"
        )
    if weight_h.dim() != 4:
        raise ValueError(
            "scan expects weight_h of shape (R, K, d_s, d_s); got "
            f"{tuple(weight_h.shape)}"
        )
    N, T, d_in = x.shape
    _, K, d_s, _ = weight_h.shape
    d, (G, R) = K * d_s, GATES[code]
    G += is_highway  # its first row is not read
    if min(T, d_in, d) < 1 or (is_highway and d_in != d):
        raise ValueError(
            "scan expects at least one step, feature and unit, and for a highway as "
            f"many features as units; got x of shape {tuple(x.shape)} and {d} units"
        )
    expected = {
        "weight_x": (weight_x, (G, d, d_in)),
        "weight_h": (weight_h, (R, K, d_s, d_s)),
        "bias": (bias, (G, d)),
        "bias_q": (bias_q, (d,)),
        "h0": (h0, (N, d)),
        "c0": (c0, (N, d)),
    }
    _check_tensors(expected, x)
    if lengths is not None:
        if lengths.dtype != torch.int64 or lengths.shape != (N,):
            raise ValueError(
                f"scan expects lengths as torch.int64 of shape ({N},); got "
                f"{lengths.dtype} of shape {tuple(lengths.shape)}"
            )
        if lengths.device.type == "cpu":  # reading others would wait for their device
            check_lengths_fit(lengths, T)


def check_backward(grads, tensors, kept, shapes_of_kept, how, wanted):
    """Check what ``scan_backward`` takes beside that.

    Parameters
    ----------
    grads : tuple
        dh, dh_last, dc_last; None for zeros.
    tensors, how : tuple
        What `check_forward` has checked.
    kept, shapes_of_kept : sequence
        The tensors that forward has kept, and the shapes that it has given them.
    wanted : list of bool

    Raises
    ------
    ValueError
        As `check_forward`.
    """
    x, weight_x = tensors[:2]
    cell, _, _, outputs = how
    (N, T, _), d = x.shape, weight_x.shape[1]
    shapes = (
        {"all": (N, T, d), "mean": (N, d), "last": (0,)}[outputs],
        (N, d),
        (N, d) if cell == "lstm" else (0,),
        *map(tuple, shapes_of_kept),
    )
    pairs = zip((*grads, *kept), shapes, strict=True)
    _check_tensors(dict(zip(_OF_BACKWARD, pairs, strict=True)), x)
    there = [tensor is not None for tensor in tensors[:N_GRADIENTS]]
    if len(wanted) != len(there) or any(
        want and not given for want, given in zip(wanted, there, strict=True)
    ):
        raise ValueError(
            f"scan_backward expects wanted as {N_GRADIENTS} of True and False, False "
            f"for tensors that are not given; got {list(wanted)}"
        )


_OF_BACKWARD = ("dh", "dh_last", "dc_last", "h", "checkpoints", "p")


def _check_tensors(expected, x):
    for name, (tensor, shape) in expected.items():
        if tensor is None or (tensor.shape == shape and tensor.dtype == x.dtype):
            continue
        raise ValueError(
            f"scan expects {name} as {x.dtype} of shape {shape}; got {tensor.dtype} of "
            f"shape {tuple(tensor.shape)}"
        )
