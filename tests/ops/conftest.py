import pytest
import torch

from skpararnn.ops._backend import BACKENDS


# "auto" is one of the others, see test_backend.py
@pytest.fixture(params=[name for name in BACKENDS if name != "auto"])
def backend(request):
    return request.param


@pytest.fixture(params=[torch.float64, torch.float32], ids=["float64", "float32"])
def dtype(request):
    return request.param
