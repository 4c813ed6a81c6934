"""What a bug report needs to say about the machine."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from .. import __version__
from .._min_dependencies import MIN_DEPENDENCIES


def show_versions():
    """Print what a bug report needs: versions, threads, CPU kernels, CUDA, backends.

    The one function of the library that prints. Versions are read from the installed
    metadata, so a package that is broken or missing is reported, not imported; only
    torch is imported, because it alone knows its threads and CUDA devices.

    Returns
    -------
    None

    Examples
    --------
    >>> from skpararnn import show_versions
    >>> show_versions()  # doctest: +ELLIPSIS
    skpararnn ...
    """
    sections = {
        "System": _system(),
        "Dependencies": _dependencies(),
        "Computation": _computation(),
    }
    print(f"skpararnn {__version__}")
    for title, facts in sections.items():
        print(f"\n{title}")
        for name, fact in facts.items():
            print(f"    {name:<16}{fact}")


def _system():
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "cores": os.cpu_count(),
    }


def _dependencies():
    return {
        name: _installed(name, oldest, extra)
        for name, (oldest, extra) in MIN_DEPENDENCIES.items()
    }


def _installed(name, oldest, extra):
    try:
        return version(name)
    except PackageNotFoundError:
        remedy = f"skpararnn[{extra}]" if extra else f"{name}>={oldest}"
        return f'not installed (python -m pip install "{remedy}")'


def _computation():
    """Threads and devices, as far as they can be known; torch may be missing."""
    facts = {
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        "CPU kernels": _cpu_kernels(),
    }
    try:
        import torch

        from ..ops._backend import BACKENDS
    except (ImportError, OSError) as error:  # OSError: a shared library is missing
        return facts | {"torch": f"cannot be imported: {error}"}
    return facts | {
        "torch threads": torch.get_num_threads(),
        "CUDA": _cuda(torch.cuda),
        "triton": _triton(),
        "backends": ", ".join(name for name in BACKENDS if name != "auto"),
    }


def _cpu_kernels():
    """Which library is used and which there are, or why there is none."""
    try:
        from ..kernels import cpu

        if reason := cpu.available():
            return f"none: {reason}"
        return f"{cpu.load().isa} (compiled: {', '.join(cpu.built())})"
    except (ImportError, ValueError) as error:  # no numpy; a wrong SKPARARNN_ISA
        return f"none: {error}"


def _triton():
    """Its version; no part of the dependencies, because torch brings its own."""
    try:
        return version("triton")
    except PackageNotFoundError:
        return "not installed"


def _cuda(cuda):
    if not cuda.is_available():
        return "not available"
    return ", ".join(cuda.get_device_name(i) for i in range(cuda.device_count()))
