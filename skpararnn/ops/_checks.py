"""The checks at the door of an op; below it tensors are trusted."""

import numbers
from typing import NamedTuple

import torch

OUTPUTS = ("all", "last", "mean")
FLOATS = (torch.float32, torch.float64)
BOOLEANS = (True, False)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Loop(NamedTuple):
    """How to run over time, checked and complete."""

    states: tuple  # of tensors (N, d), first states
    lengths: torch.Tensor | None  # (N,), on the device of x; None: no padding
    reverse: bool
    outputs: str


def check_choice(name, value, choices):
    """Return `value` if it is one of `choices`, else say which there are.

    True is no 1 and False no 0, although Python says that they are equal.
    """
    if any(value is choice for choice in choices):  # the quick way in
        return value
    if not any(_same(value, choice) for choice in choices):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{name} must be one of {listed}; got {value!r}")
    return value


def check_positive_int(name, value):
    """Return `value` as an int; refuse bools, floats and numbers below 1."""
    is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_integer or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}")
    return int(value)


def check_dtype(dtype):
    """Return `dtype`, or torch's default one for None, if the ops can compute in it."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    if dtype not in FLOATS:
        raise TypeError(f"dtype must be torch.float32 or torch.float64; got {dtype!r}")
    return dtype


def check_layer(
    x,
    weight_x,
    weight_h,
    bias,
    *,
    gates,
    recurrent,
    states,
    lengths,
    reverse,
    outputs,
):
    """Check what every op takes against each other.

    Parameters
    ----------
    x, weight_x, weight_h, bias
        As in the ops.
    gates, recurrent : str
        One letter for each row of `weight_x` and of `weight_h`.
    states : dict of str to (tensor of shape (N, d) or (d,), or None)
        First states by argument name; None stands for zeros.
    lengths, reverse, outputs
        As in the ops.

    Returns
    -------
    loop : Loop

    Raises
    ------
    ValueError, TypeError
        The message names both sides of a mismatch.
    """
    tensors = {"x": x, "weight_x": weight_x, "weight_h": weight_h, "bias": bias}
    given = {name: state for name, state in states.items() if state is not None}
    _check_alike({**tensors, **given})
    _check_x(x)
    _check_weights(x, weight_x, weight_h, bias, gates, recurrent)
    check_choice("outputs", outputs, OUTPUTS)
    check_choice("reverse", reverse, BOOLEANS)
    first = [_check_state(name, h0, x, weight_h) for name, h0 in states.items()]
    return Loop(tuple(first), _check_lengths(lengths, x), bool(reverse), outputs)


def check_unit_vector(name, vector, x, weight_h):
    """Check one number a unit, like GRU's `bias_q`: shape (d,)."""
    _check_alike({"x": x, name: vector})
    d = weight_h.shape[1] * weight_h.shape[2]
    if vector.shape != (d,):
        raise ValueError(
            f"{_blocks(weight_h)}, {name} has shape {tuple(vector.shape)}; "
            f"expected ({d},)"
        )


def check_lengths_fit(lengths, T):
    """Check that all lengths lie within 0 and T."""
    if len(lengths) == 0:
        return
    shortest, longest = map(int, lengths.aminmax())
    if shortest >= 0 and longest <= T:
        return
    n = int(((lengths < 0) | (lengths > T)).nonzero()[0])
    raise ValueError(f"x has T={T} steps, lengths[{n}] is {int(lengths[n])}")


def _same(value, choice):
    return _is_number(value) == _is_number(choice) and value == choice


def _is_number(value):
    return isinstance(value, numbers.Number) and not isinstance(value, bool)


def _check_alike(tensors):
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor; got {type(tensor)}")
        if tensor.layout != torch.strided:
            raise TypeError(f"{name} is {tensor.layout}; use {name}.to_dense()")
    x = tensors["x"]
    if x.dtype not in FLOATS:
        raise TypeError(f"x is {x.dtype}; the ops take torch.float32 and torch.float64")
    for name, tensor in tensors.items():
        if tensor.dtype != x.dtype:
            raise TypeError(f"x is {x.dtype}, {name} is {tensor.dtype}")
        if tensor.device != x.device:
            raise ValueError(f"x is on {x.device}, {name} is on {tensor.device}")


def _check_x(x):
    if x.ndim != 3:
        raise ValueError(f"x must have shape (N, T, d_in); got {tuple(x.shape)}")
    if x.shape[1] == 0:
        raise ValueError("x has T=0 steps; an op needs at least one")
    if x.shape[2] == 0:
        raise ValueError("x has d_in=0 features; an op needs at least one")


def _check_weights(x, weight_x, weight_h, bias, gates, recurrent):
    if weight_h.ndim != 4 or weight_h.shape[2] != weight_h.shape[3]:
        shape = tuple(weight_h.shape)
        raise ValueError(f"weight_h must have shape (R, K, d_s, d_s); got {shape}")
    _check_gates("weight_h", weight_h, recurrent)
    d, d_in = weight_h.shape[1] * weight_h.shape[2], x.shape[2]
    if d == 0:
        raise ValueError(f"{_blocks(weight_h)}; an op needs at least one unit")
    for name, tensor, ndim in (("weight_x", weight_x, 3), ("bias", bias, 2)):
        if tensor.ndim != ndim:
            layout = "(G, d, d_in)" if ndim == 3 else "(G, d)"
            shape = tuple(tensor.shape)
            raise ValueError(f"{name} must have shape {layout}; got {shape}")
        _check_gates(name, tensor, gates)
        if tensor.shape[1] != d:
            raise ValueError(f"{_blocks(weight_h)}, {name} has d={tensor.shape[1]}")
    if weight_x.shape[2] != d_in:
        raise ValueError(f"x has d_in={d_in}, weight_x has d_in={weight_x.shape[2]}")


def _check_gates(name, tensor, gates):
    if tensor.shape[0] != len(gates):
        raise ValueError(
            f"{name} has {tensor.shape[0]} gates; this cell has {len(gates)} of them "
            f"in the order {' '.join(gates)}"
        )


def _check_state(name, state, x, weight_h):
    N, d = x.shape[0], weight_h.shape[1] * weight_h.shape[2]
    if state is None:
        return x.new_zeros(N, d)
    if state.shape not in ((N, d), (d,)):
        raise ValueError(
            f"{_blocks(weight_h)} and x has N={N}, {name} has shape "
            f"{tuple(state.shape)}; expected ({N}, {d}) or ({d},)"
        )
    return state.expand(N, d)


def _check_lengths(lengths, x):
    if lengths is None:
        return None
    if not isinstance(lengths, torch.Tensor):
        lengths = torch.tensor(lengths)  # a copy: backward reads it again
        if lengths.numel() == 0:
            lengths = lengths.long()  # an empty list says nothing of its type
    N, T = x.shape[:2]
    if lengths.dtype not in INTEGERS:
        raise TypeError(f"lengths must be integers; got {lengths.dtype}")
    if lengths.shape != (N,):
        raise ValueError(f"x has N={N}, lengths has shape {tuple(lengths.shape)}")
    # compiled code has no numbers yet, and to read a device means to wait for it
    if lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        check_lengths_fit(lengths, T)
    return lengths.to(x.device, torch.int64)


def _blocks(weight_h):
    _, K, d_s, _ = weight_h.shape
    return f"weight_h has K={K} blocks of size {d_s} (d={K * d_s})"
