import pytest
import torch

from skpararnn.kernels import cpu
from skpararnn.ops._backend import BACKENDS


# "auto" is one of the others, see test_backend.py
@pytest.fixture(params=[name for name in BACKENDS if name != "auto"])
def backend(request):
    if request.param == "cpu":
        request.getfixturevalue("kernel")
    return request.param


@pytest.fixture
def kernel():
    """Skip without a compiled library; the reason says how to get one."""
    if reason := cpu.available():
        pytest.skip(reason)


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param
