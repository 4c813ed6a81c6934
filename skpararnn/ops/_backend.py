"""Which implementation of an op runs, or why not the one that was asked for."""

import torch
from torch.autograd import forward_ad

from ..kernels import cpu
from ._checks import check_choice


def _cpu_refusal(x):
    if x.device.type != "cpu":
        return f"needs CPU tensors, got {x.device}"
    if reason := _missing_library():
        return f"has no library to call: {reason}"
    if not torch.compiler.is_compiling() and _is_transformed():
        return "has no torch.func transforms and no forward-mode derivatives"
    return None


def _missing_library():
    return cpu.available()


# What torch.compiler.assume_constant_result does, which would import the compiler, two
# seconds: torch.compile calls this function instead of reading it.
_missing_library._dynamo_marked_constant = True


def _is_transformed():
    """Whether torch.func or forward-mode differentiation wants to see every step."""
    return _in_transform() or getattr(forward_ad, "_current_level", -1) >= 0


# neither is public: without them such calls end in errors or without derivatives
_in_transform = getattr(torch._C, "_are_functorch_transforms_active", bool)


def _reference_refusal(x):
    return None


# best first: the reason why it cannot run on x, or None
REFUSALS = {"cpu": _cpu_refusal, "reference": _reference_refusal}
BACKENDS = ("auto", *REFUSALS)


def choose(backend, x, implementations):
    """Return the implementation that `backend` names; "auto" always finds one.

    Parameters
    ----------
    backend : {"auto", "cpu", "reference"}
        A name asked for runs or is refused; it is never replaced by another one.
    x : tensor
        What the op is to run on.
    implementations : dict of str to callable
        What the op offers, "reference" at least. All take the same arguments and return
        the same values.

    Raises
    ------
    ValueError
        For an unknown name; the message lists the names. For one that cannot run here;
        the message has the reason.

    Warns
    -----
    UserWarning
        Once per process, if "auto" falls back because nothing was compiled.
    """
    check_choice("backend", backend, BACKENDS)
    if backend == "auto":
        return implementations[_best(x, implementations)]
    if backend not in implementations:
        offered = ", ".join(map(repr, implementations))
        raise ValueError(f"backend={backend!r} does not have this op; use {offered}")
    if reason := REFUSALS[backend](x):
        raise ValueError(f"backend={backend!r} {reason}")
    return implementations[backend]


def _best(x, implementations):
    for name, refusal in REFUSALS.items():
        if name in implementations and refusal(x) is None:
            break
    if name == "reference" and x.device.type == "cpu":
        cpu.warn_once_if_missing()
    return name
