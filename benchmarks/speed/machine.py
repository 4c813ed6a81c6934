"""Facts that explain a measurement; none that name the machine."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from skpararnn import __version__
from skpararnn.kernels import cpu

PACKAGES = ("torch", "numpy", "scikit-learn", "skorch", "joblib")


def describe():
    """Return the header of a result; call it before anything is measured."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "skpararnn": __version__,
        **{name: version(name) for name in PACKAGES},
        "torch_vectors": torch.backends.cpu.get_cpu_capability(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "flush_denormal": True,
        "dtype": "float32",
        **_kernel(),
    }


def _kernel():
    """Which library serves, or why none does."""
    if reason := cpu.available():
        return {"kernel": None, "vector_bytes": 0, "no_kernel": reason}
    library = cpu.load()
    return {"kernel": library.isa, "vector_bytes": library.bytes_per_vector}


def _cpu():
    """Return the model of the CPU as its maker calls it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return models[0] if models else platform.processor()
