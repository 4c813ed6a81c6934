"""Which implementation of an op runs, or why not the one that was asked for."""

import functools
from math import isqrt

import torch
from torch.autograd import forward_ad

from ..kernels import cpu
from ._checks import check_choice


def _cpu_refusal(x, weight_h):
    if x.device.type != "cpu":
        return f"needs CPU tensors, got {x.device}"
    if reason := _missing_library():
        return f"has no library to call: {reason}"
    return _refuse_transforms()


def _triton_refusal(x, weight_h):
    if x.device.type != "cuda":
        return f"needs CUDA tensors, got {x.device}"
    R, _, d_s, _ = weight_h.shape
    return _missing_triton(R, d_s) or _refuse_transforms()


def _native_refusal(x, weight_h):
    K = weight_h.shape[1]
    if K != 1:
        return f"runs dense layers, K=1; weight_h has K={K} blocks"
    return _refuse_transforms()


def _refuse_transforms():
    if not torch.compiler.is_compiling() and _is_transformed():
        return "has no torch.func transforms and no forward-mode derivatives"
    return None


def _missing_library():
    return cpu.available()


def _missing_triton(R, d_s):
    """Why there are no kernels for blocks of d_s units in R gates, or None."""
    triton, reason = _find_triton()
    if triton is None:
        return reason
    if triton.kernel_for(R, d_s) is None:
        return (
            f"runs up to {isqrt(triton.MOST_WEIGHTS // R)} units a block with {R} "
            f"recurrent gates; weight_h has d_s={d_s}"
        )
    return None


@functools.cache
def _find_triton():
    """The kernels and None, or None and the reason; looked for once per process."""
    try:
        from ..kernels import triton
    except ImportError as error:
        return None, f"needs triton, which comes with torch on Linux: {error}"
    reason = triton.available()
    return (None, reason) if reason else (triton, None)


# What torch.compiler.assume_constant_result does, which would import the compiler, two
# seconds: torch.compile calls these functions instead of reading them.
_missing_library._dynamo_marked_constant = True
_missing_triton._dynamo_marked_constant = True


def _is_transformed():
    """Whether torch.func or forward-mode differentiation wants to see every step."""
    return _in_transform() or getattr(forward_ad, "_current_level", -1) >= 0


# neither is public: without them such calls end in errors or without derivatives
_in_transform = getattr(torch._C, "_are_functorch_transforms_active", bool)


def _reference_refusal(x, weight_h):
    return None


# best first: the reason why it cannot run on such tensors, or None
REFUSALS = {
    "cpu": _cpu_refusal,
    "triton": _triton_refusal,
    "native": _native_refusal,
    "reference": _reference_refusal,
}
BACKENDS = ("auto", *REFUSALS)


def choose(backend, x, weight_h, implementations):
    """Return the implementation that `backend` names; "auto" always finds one.

    Parameters
    ----------
    backend : {"auto", "cpu", "triton", "native", "reference"}
        A name asked for runs or is refused; it is never replaced by another one.
    x, weight_h : tensors
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
        return implementations[_best(x, weight_h, implementations)]
    if backend not in implementations:
        offered = ", ".join(map(repr, implementations))
        raise ValueError(f"backend={backend!r} does not have this op; use {offered}")
    if reason := REFUSALS[backend](x, weight_h):
        raise ValueError(f"backend={backend!r} {reason}")
    return implementations[backend]


def _best(x, weight_h, implementations):
    for name, refusal in REFUSALS.items():
        if name in implementations and refusal(x, weight_h) is None:
            break
    if name != "cpu" and x.device.type == "cpu":
        cpu.warn_once_if_missing()
    return name
