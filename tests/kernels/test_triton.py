"""The kernels for CUDA, as far as they can be tried without a GPU.

Their numbers come from Triton's interpreter, in a process of its own: whether kernels
are interpreted or compiled is settled when their file is read. What they ask of a GPU
comes from Triton's compiler, which needs none.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]

triton = pytest.importorskip(
    "triton", reason="triton is not installed; it comes with torch for CUDA on Linux"
)

from skpararnn.kernels.triton import _choice  # noqa: E402  (imports triton)

needs_new_triton = pytest.mark.skipif(
    _choice._version_refusal(triton.__version__) is not None,
    reason=f"the kernels need a newer triton than {triton.__version__}",
)


# -- whether they can run --------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.4.0", "3.10.0", "4.0.0+git1234"])
def test_new_versions_will_do(version):
    assert _choice._version_refusal(version) is None


@pytest.mark.parametrize("version", ["2.3.1", "3.3.1"])
def test_old_versions_name_the_one_that_will_do(version):
    assert f"triton 3.4, which torch 2.8 brings; {version} is" in (
        _choice._version_refusal(version)
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_triton_does_not_start():
    assert _choice._device_refusal().startswith("cannot start triton: ")


@pytest.mark.parametrize(
    ("products", "largest"), [(1, 8), (3, 4), (4, 4)], ids=["rnn, lru", "gru", "lstm"]
)
def test_larger_blocks_are_left_to_the_reference(products, largest):
    assert _choice.kernel_for(products, largest) is not None
    assert _choice.kernel_for(products, largest + 1) is None


# -- their numbers ---------------------------------------------------------------------


def run_interpreted(*arguments):
    """Run tests in a process that interprets kernels."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", *arguments]
    run = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,  # what failed is printed below
    )
    assert run.returncode == 0, run.stdout[-10_000:] + run.stderr
    assert " passed" in run.stdout


GOLDEN, CONTRACT = "tests/ops/test_golden.py", "tests/ops/test_common.py"
EDGES = "tests/ops/test_scan_cuda.py"


@needs_new_triton
def test_kernels_equal_the_reference():
    """Not with the dense golden layers, which take longest."""
    run_interpreted(EDGES, GOLDEN, "-k", "test_scan_cuda or float64 and not K1")


@needs_new_triton
@pytest.mark.slow
def test_kernels_equal_the_reference_at_every_size():
    run_interpreted(EDGES, "-m", "slow")
    run_interpreted(GOLDEN)


@needs_new_triton
@pytest.mark.slow
def test_kernels_keep_the_contract_of_the_ops():
    """All but what takes long there and stands in the other file for few sizes."""
    elsewhere = "float32 or equals_reference or memory or finite_differences"
    run_interpreted(CONTRACT, "-k", f"triton and not ({elsewhere})")


# -- what they ask of a GPU ------------------------------------------------------------


@pytest.fixture
def resources(monkeypatch, tmp_path):
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("this process interprets kernels")
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    from benchmarks import triton_resources

    return triton_resources


def test_the_table_has_every_kernel(resources):
    _, stored = resources.stored()
    assert list(stored) == resources.KERNELS
    for kernel, usage in stored.items():
        assert usage.shared == 0, kernel
        assert usage.spilled == 0 or kernel.dtype == "float64", kernel


# a compilation takes seconds; what is not compiled here stands in the table alone
COMPILED = [
    (d_s, dtype, target)
    for d_s in (1, 2, 4)
    for dtype, target in [
        ("float32", "sm_90"),
        ("float32", "sm_80"),
        ("float64", "sm_90"),
        ("bfloat16", "sm_90"),
    ]
]
FIRST, *OTHERS = COMPILED


@needs_new_triton
@pytest.mark.parametrize(
    ("d_s", "dtype", "target"),
    [FIRST, *(pytest.param(*row, marks=pytest.mark.slow) for row in OTHERS)],
)
def test_kernels_fit_into_registers(d_s, dtype, target, resources):
    version, stored = resources.stored()
    kernels = [k for k in stored if (k.d_s, k.dtype, k.target) == (d_s, dtype, target)]
    assert len(kernels) == 2 * len(resources.CELLS)
    for kernel in kernels:
        usage = resources.usage(kernel)
        assert usage.shared == 0, kernel
        assert usage.spilled <= 1.1 * stored[kernel].spilled, kernel
        if triton.__version__ == version:  # another compiler, other registers
            assert usage.registers <= 1.1 * stored[kernel].registers, kernel
