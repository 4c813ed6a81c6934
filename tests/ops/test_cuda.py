"""The ops on a GPU: the numbers, and that nobody waits for it."""

import pytest
import torch

from .layers import VARIANTS, bounded_layer, variant_id
from .test_sizes import assert_all_close, lengths_of

pytestmark = [pytest.mark.cuda, pytest.mark.usefixtures("card")]

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)


@pytest.fixture
def card():
    """Skip without a GPU and a triton that the kernels run on."""
    if not torch.cuda.is_available():
        pytest.skip("torch finds no GPU")
    from skpararnn.ops import _backend

    triton, reason = _backend._find_triton()
    if triton is None:
        pytest.skip(f"the kernels for CUDA cannot run: backend='triton' {reason}")


def layer_on_card(variant, dtype=torch.float32, **sizes):
    layer = bounded_layer(variant, dtype, **sizes)
    layer.tensors = {name: tensor.cuda() for name, tensor in layer.tensors.items()}
    return layer


# each compiles two kernels, which takes seconds
WAYS = [
    (2, torch.float32, "all", False, False),
    (2, torch.float32, "mean", True, True),
    (2, torch.float32, "last", False, True),
    (1, torch.float32, "all", True, True),
    (4, torch.float32, "all", False, True),
    (2, torch.float64, "all", False, True),
]


@variants
@pytest.mark.parametrize(("d_s", "dtype", "outputs", "reverse", "padded"), WAYS)
def test_kernel_equals_reference(variant, d_s, dtype, outputs, reverse, padded):
    layer = layer_on_card(variant, dtype, N=7, T=75, d_in=3, K=33, d_s=d_s)
    how = {"outputs": outputs, "reverse": reverse}
    how["lengths"] = lengths_of(layer).cuda() if padded else None
    ours = layer.run_and_gradients(**how, backend="triton")
    layer.tensors = {name: tensor.double() for name, tensor in layer.tensors.items()}
    assert_all_close(ours, layer.run_and_gradients(**how, backend="reference"))


@pytest.mark.parametrize("d_s", [5, 8])
def test_the_largest_blocks_of_an_rnn(d_s):
    layer = layer_on_card(VARIANTS[0], N=5, T=40, d_in=3, K=7, d_s=d_s)
    ours = layer.run_and_gradients(backend="triton")
    layer.tensors = {name: tensor.double() for name, tensor in layer.tensors.items()}
    assert_all_close(ours, layer.run_and_gradients(backend="reference"))


@variants
def test_bits_repeat(variant):
    layer = layer_on_card(variant, N=64, T=200, d_in=8, K=64, d_s=2)
    lengths = layer.lengths().cuda()
    first, second = (layer.run_and_gradients(lengths=lengths) for _ in range(2))
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def step_of(layer, lengths):
    """A forward and backward run whose results lie where they lay before."""
    given = [t.requires_grad_() for t in layer.tensors.values()]

    def step():
        h, states = layer.run(lengths=lengths)
        loss = h.square().sum() + sum(state.sum() for state in states)
        return (h, *torch.autograd.grad(loss, given))

    return step


# torch says that it does not notice everything
@pytest.mark.filterwarnings("ignore:Synchronization debug mode:UserWarning")
@variants
def test_nothing_waits_for_the_device(variant):
    layer = layer_on_card(variant, N=5, T=9, K=33)
    step = step_of(layer, layer.lengths().cuda())
    step()  # compiles
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@variants
def test_a_captured_step_equals_the_step(variant):
    layer = layer_on_card(variant, N=5, T=9, K=33)
    lengths = layer.lengths().cuda()
    step = step_of(layer, lengths)
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()

    with torch.no_grad():
        layer.tensors["x"].mul_(-0.5)
        lengths.fill_(4)
    graph.replay()
    for ours, theirs in zip(captured, step(), strict=True):
        assert torch.equal(ours, theirs)


def test_autocast_leaves_the_recurrence_alone():
    layer = layer_on_card(VARIANTS[0], N=5, T=9, K=33)
    expected = layer.run_and_gradients()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        actual = layer.run_and_gradients()
    for name, value in actual.items():
        assert torch.equal(value, expected[name]), name


def test_the_operator_computes_in_float32_under_autocast():
    x = torch.randn(3, 5, 2, device="cuda").bfloat16()
    weights = (x.new_ones(1, 6, 2), x.new_zeros(1, 3, 2, 2), x.new_zeros(1, 6))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        h, *_ = torch.ops.skpararnn.scan(
            x, *weights, None, None, None, None, "rnn", "tanh", False, "all", False
        )
    assert h.dtype == torch.float32


def test_another_length_is_not_compiled_for():
    from skpararnn.kernels.triton._scan import scan_forward

    def compiled():
        caches = scan_forward.device_caches.values()
        return sum(len(kernels) for kernels, *_ in caches)

    layer_on_card(VARIANTS[0], N=5, T=9, K=33).run()
    before = compiled()
    for N, T, K in ((1, 1, 1), (16, 32, 64), (7, 33, 5)):
        layer_on_card(VARIANTS[0], N=N, T=T, K=K).run()
    assert compiled() == before


def test_compiled_op_equals_the_op():
    layer = layer_on_card(VARIANTS[0], N=5, T=9, K=33)
    run = torch.compile(lambda: layer.run()[0], fullgraph=True, backend="aot_eager")
    assert torch.equal(run(), layer.run()[0])


@pytest.mark.parametrize("d_s", [9, 16])
def test_auto_leaves_larger_blocks_to_the_reference(d_s):
    layer = layer_on_card(VARIANTS[0], K=2, d_s=d_s)
    with pytest.raises(ValueError, match="runs up to 8 units a block"):
        layer.run(backend="triton")
    assert torch.equal(layer.run()[0], layer.run(backend="reference")[0])
