"""Whether the kernels can run here, and which of them runs a layer."""

import functools

import triton

from . import _launch

# tuples of tuples of tensors inside a kernel; torch 2.8 comes with it
OLDEST_TRITON = (3, 4)
OLDEST_ARCHITECTURE = 75  # compute capability 7.5

# First match wins. Each has `forward`, `backward` and `fits`, as `_launch` has them.
KERNELS = (_launch,)


def kernel_for(products, d_s):
    """Return the kernels for blocks of d_s units with so many recurrent products.

    None if there are none: then the reference loop is left.
    """
    return next((kernel for kernel in KERNELS if kernel.fits(products, d_s)), None)


@functools.cache
def available():
    """Return None if the kernels can run on the current device, else the reason."""
    return _version_refusal(triton.__version__) or _device_refusal()


def _version_refusal(version):
    numbers = tuple(map(int, version.split(".")[:2]))
    if numbers >= OLDEST_TRITON:
        return None
    oldest = ".".join(map(str, OLDEST_TRITON))
    return f"needs triton {oldest}, which torch 2.8 brings; {version} is installed"


def _device_refusal():
    try:
        target = triton.runtime.driver.active.get_current_target()
    except Exception as error:  # no driver, no C compiler: triton has a class for each
        return f"cannot start triton: {error}"
    if target.backend == "cuda" and target.arch < OLDEST_ARCHITECTURE:
        return f"needs compute capability 7.5 or newer; {target.arch / 10} is there"
    return None
