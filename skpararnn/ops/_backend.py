"""Which implementation of an op runs."""

import torch

from ..kernels import cpu
from ._checks import check_choice

BACKENDS = ("auto", "cpu", "reference")


def choose(backend, x, implementations):
    """Return the implementation that `backend` names; "auto" always finds one.

    Parameters
    ----------
    backend : {"auto", "cpu", "reference"}
        A name asked for runs or is refused; it is never replaced by another one.
    x : tensor
        The op's input, already checked.
    implementations : dict of str to callable
        What the op offers. All take the same arguments and return the same values.

    Raises
    ------
    ValueError
        For an unknown name; the message lists the names. For one that cannot run here;
        the message says why, and what to do.

    Warns
    -----
    UserWarning
        Once per process, if "auto" computes on the CPU without the compiled kernel.
    """
    check_choice("backend", backend, BACKENDS)
    if backend == "auto":
        fast = "cpu" in implementations and x.device.type == "cpu" and _has_kernel()
        backend = "cpu" if fast else "reference"
    elif backend == "cpu" and (reason := _refusal(x, implementations)):
        raise ValueError(f"backend='cpu' {reason}, or choose backend='auto'")
    return implementations[backend]


def _refusal(x, implementations):
    """Why the CPU kernel cannot take x, or None."""
    if "cpu" not in implementations:
        return "does not know this cell: choose backend='reference'"
    if x.device.type != "cpu":
        return f"needs CPU tensors, got {x.device}: move them"
    if reason := _missing_kernel():
        return f"cannot run: {reason}"
    return None


# Whether a library was compiled does not change while a process lives, and compilers
# that trace the op cannot look into a file system.
@torch.compiler.assume_constant_result
def _has_kernel():
    cpu.warn_once_if_missing()
    return cpu.available() is None


@torch.compiler.assume_constant_result
def _missing_kernel():
    return cpu.available()
