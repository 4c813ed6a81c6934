"""The kernels for CUDA on CPU tensors, in Triton's interpreter.

tests/kernels/test_triton.py starts the process that runs this file.
"""

import pytest
import torch
from tolerances import assert_close

from skpararnn.ops import _scan_cuda

from .conftest import INTERPRETED
from .layers import VARIANTS, Layer, bounded_layer, variant_id
from .test_numbers import SATURATING
from .test_scan import arguments_of, scan
from .test_sizes import assert_all_close, lengths_of, pairwise, row_id

if not INTERPRETED:
    pytest.skip("Triton does not interpret in this process", allow_module_level=True)

pytestmark = [
    pytest.mark.usefixtures("interpreter"),
    # torch says it of its own part: opcheck reads .grad of what is no leaf
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
]


def one_a_cell(variants):
    """Try the first variant of each cell every day, the others with the slow tests."""
    seen, params = set(), []
    for variant in variants:
        marks = pytest.mark.slow if variant[0] in seen else ()
        params.append(pytest.param(variant, marks=marks, id=variant_id(variant)))
        seen.add(variant[0])
    return pytest.mark.parametrize("variant", params)


variants = one_a_cell(VARIANTS)

# What the kernels treat on their own: lanes that fill no program, rows that share one
# and blocks that need two; T below, at and beside the ends of a chunk of steps.
CHOICES = {
    "d_s": [1, 2, 3, 4],
    "K": [1, 5, 17],
    "N": [1, 2, 4],
    "T": [1, 2, 8, 9, 17],
    "dtype": [torch.float32, torch.float64],
    "outputs": ["all", "last", "mean"],
    "reverse": [False, True],
    "padded": [False, True],
}


def check(variant, *, dtype, outputs, reverse, padded, **sizes):
    """Hold outputs, last states and every gradient against the reference in float64."""
    layer = bounded_layer(variant, dtype, d_in=3, **sizes)
    how = {"outputs": outputs, "reverse": reverse}
    how["lengths"] = lengths_of(layer) if padded else None
    ours = layer.run_and_gradients(**how, backend="triton")
    layer.tensors = {name: tensor.double() for name, tensor in layer.tensors.items()}
    assert_all_close(ours, layer.run_and_gradients(**how, backend="reference"))


@pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
def test_kernel_equals_reference(variant):
    sizes = {"d_s": 2, "K": 3, "N": 3, "T": 11, "dtype": torch.float32}
    check(variant, **sizes, outputs="all", reverse=False, padded=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "row"),
    [
        pytest.param(variant, row, id=f"{variant_id(variant)}-{row_id(row)}")
        for seed, variant in enumerate(VARIANTS)
        for row in pairwise(CHOICES, seed)
    ],
)
def test_kernel_equals_reference_at_every_size(variant, row):
    check(variant, **row)


@variants
def test_gradients_are_those_of_finite_differences(variant):
    layer = Layer(variant, N=2, T=2, K=2, d_s=2)
    how = {"lengths": torch.tensor([2, 1]), "backend": "triton"}
    given = [t.requires_grad_() for t in layer.tensors.values()]

    def values(*tensors):
        h, states = layer.run(**dict(zip(layer.tensors, tensors, strict=True)), **how)
        return h, *states

    # fast: one random direction of each tensor instead of each of its numbers
    assert torch.autograd.gradcheck(values, given, fast_mode=True)


@variants
def test_bits_repeat(variant):
    layer = Layer(variant, torch.float32, N=2, T=4, K=3, d_s=2)
    how = {"lengths": layer.lengths(), "backend": "triton"}
    first, second = (layer.run_and_gradients(**how) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


# -- numbers at the edge ---------------------------------------------------------------


@one_a_cell(SATURATING)
@pytest.mark.parametrize("size", [1e2, 1e30])
def test_huge_numbers_saturate(variant, size, dtype):
    layer = bounded_layer(variant, dtype, N=2, T=5, d_in=1, K=1, d_s=1)
    for name, unit in (("x", 1.0), ("weight_x", size)):
        layer.tensors[name] = unit * layer.tensors[name].sign()
    results = layer.run_and_gradients(backend="triton")
    for name, value in results.items():
        assert value.isfinite().all(), name
    layer.tensors = {name: tensor.double() for name, tensor in layer.tensors.items()}
    truth, *_ = layer.run(backend="reference")
    assert_close(results["h"], truth)


@variants
def test_nan_stays_in_its_row_and_is_not_lost(variant):
    layer = bounded_layer(variant, N=3, T=6, K=3, d_s=2)
    before = layer.run_and_gradients(backend="triton")
    layer.tensors["x"][1, 4] = torch.nan
    after = layer.run_and_gradients(backend="triton")
    for name in ("h", "h_last", "dx", "dh0"):
        assert torch.equal(after[name][::2], before[name][::2]), name
    assert torch.equal(after["h"][1, :4], before["h"][1, :4])
    assert after["h"][1, 4:].isnan().all()
    assert after["dweight_h"].isnan().all()


def test_padding_is_not_read():
    layer = Layer(VARIANTS[0], N=3, T=9, K=3)
    how = {"lengths": torch.tensor([9, 4, 0]), "backend": "triton"}
    before = layer.run_and_gradients(**how)
    layer.tensors["x"][1, 4:] = layer.tensors["x"][2] = torch.nan
    assert_all_close(layer.run_and_gradients(**how), before)


def test_lengths_outside_the_sequence_are_cut():
    """Nobody has read them: that would mean to wait for the device."""
    layer = Layer(VARIANTS[0], N=2)
    outside, inside = (
        _scan_cuda.forward(*arguments_of(layer, lengths=torch.tensor(lengths)))
        for lengths in ([7, -1], [5, 0])
    )
    assert torch.equal(outside[0], inside[0])


HALF = torch.bfloat16


@variants
def test_half_the_digits_are_stored_but_not_computed_with(variant):
    """Stored states are off by half a unit of the last of their eight binary digits."""
    layer = bounded_layer(variant, HALF, N=2, T=5, K=3, d_s=2)
    arguments = arguments_of(layer)
    tensors, how = arguments[:8], arguments[8:12]
    h, h_last, c_last, *kept = _scan_cuda.forward(*arguments)
    wanted = [tensor is not None for tensor in tensors[:-1]]
    given = h, h_last, c_last, *tensors, h, *kept
    grads = _scan_cuda.backward(*given, *how, wanted)
    assert {t.dtype for t in (h, *grads) if t is not None} == {HALF}
    layer.tensors = {name: tensor.double() for name, tensor in layer.tensors.items()}
    truth, _ = layer.run(backend="reference")
    assert (h - truth).abs().max() < 2**-7 * truth.abs().max()


# -- the operator ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("outputs", ["all", "last"])
@pytest.mark.parametrize("variant", VARIANTS[:5:4], ids=variant_id)  # rnn, lstm
def test_registration_passes_the_checks_of_torch(variant, outputs):
    layer = Layer(variant, N=2, T=3)
    given = [
        a.clone().requires_grad_() if isinstance(a, torch.Tensor) else a
        for a in arguments_of(layer, outputs)
    ]
    torch.library.opcheck(scan, given)


@pytest.mark.parametrize("variant", VARIANTS[:5:4], ids=variant_id)  # rnn, lstm
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_without_backward_nothing_is_kept(variant, outputs):
    layer = Layer(variant, N=2, T=3)
    kept = _scan_cuda.forward(*arguments_of(layer, outputs, save=False))[3:]
    assert kept == (None, None)
