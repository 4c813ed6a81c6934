import os

import pytest
import torch

from skpararnn.kernels import cpu
from skpararnn.ops._backend import BACKENDS

# Triton reads it when a kernel is decorated, so a process interprets kernels or none.
# One that does tries no other backend: see tests/kernels/test_triton.py.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


# "auto" is one of the others, see test_backend.py; "native" runs dense layers alone,
# see test_native.py
@pytest.fixture(
    params=[
        name
        for name in BACKENDS
        if name not in ("auto", "native") and (name == "triton") == INTERPRETED
    ]
)
def backend(request):
    needed = {"cpu": "kernel", "triton": "interpreter"}.get(request.param)
    if needed:
        request.getfixturevalue(needed)
    return request.param


@pytest.fixture
def kernel():
    """Skip without a compiled library; the reason says how to get one."""
    if reason := cpu.available():
        pytest.skip(reason)


@pytest.fixture
def interpreter(monkeypatch):
    """Run the kernels for CUDA on CPU tensors, and blocks that no lane could hold."""
    from skpararnn.kernels.triton import _launch
    from skpararnn.ops import _backend, _scan, _scan_cuda

    monkeypatch.setitem(_backend.REFUSALS, "triton", lambda x, weight_h: None)
    monkeypatch.setitem(_scan.DEVICES, "cpu", _scan_cuda)
    monkeypatch.setattr(_launch, "MOST_WEIGHTS", 10**6)


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param
