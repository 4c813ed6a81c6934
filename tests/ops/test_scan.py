"""The operator that the kernels implement, as torch sees it."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from tolerances import assert_close
from torch.fx.experimental.proxy_tensor import make_fx

from skpararnn.nets import RecurrentNet
from skpararnn.ops import _scan_cpu, rnn

from .layers import VARIANTS, Layer, variant_id

# what torch 2.14 says of its own parts: opcheck reads .grad of what is no leaf, and
# tracing and forward mode use torch.jit
pytestmark = [
    pytest.mark.usefixtures("kernel"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning"),
]

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)
widths = pytest.mark.parametrize("K", [3, 20], ids=["narrow", "wide"])

scan = torch.ops.skpararnn.scan.default
scan_backward = torch.ops.skpararnn.scan_backward.default

NAMES = ("x", "weight_x", "weight_h", "bias", "bias_q", "h0", "c0")


def layer_of(variant, K=3, dtype=torch.float64, **sizes):
    """A layer as wide as its input."""
    return Layer(variant, dtype, K=K, d_s=2, d_in=2 * K, **sizes)


def option_of(layer):
    """The name by which the operator knows the option of a cell."""
    (value,) = layer.options.values() or ("",)
    return {True: "after", False: "before"}.get(value, value)


def arguments_of(layer, outputs="all", lengths=None, save=True):
    tensors = [layer.tensors.get(name) for name in NAMES]
    return (*tensors, lengths, layer.cell, option_of(layer), False, outputs, save)


def requiring_gradients(arguments):
    return [
        a.clone().requires_grad_()
        if isinstance(a, torch.Tensor) and a.is_floating_point()
        else a
        for a in arguments
    ]


def gradients(values, given):
    loss = sum(value.square().sum() for value in values)
    return torch.autograd.grad(loss, given)


def assert_equal(actual, expected):
    """Hold values by name against others, to the last bit."""
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert torch.equal(value, expected[name]), name


# -- torch's own checks ----------------------------------------------------------------


def check_registration(variant, K, outputs):
    layer = layer_of(variant, K)
    lengths = layer.lengths() if outputs == "mean" else None
    arguments = arguments_of(layer, outputs, lengths)
    torch.library.opcheck(scan, requiring_gradients(arguments))

    *values, checkpoints, p = scan(*arguments)
    grads = [layer.normal(value.shape) for value in values]
    wanted = [name in layer.tensors for name in NAMES]
    tensors, how = arguments[:8], arguments[8:12]
    torch.library.opcheck(
        scan_backward, (*grads, *tensors, None, checkpoints, p, *how, wanted)
    )


outputs = pytest.mark.parametrize("outputs", ["all", "last", "mean"])


def everywhere(test):
    """All variants, widths and outputs, of which `few` are the everyday part."""
    return pytest.mark.slow(variants(widths(outputs(test))))


# every cell, width and kind of output, in few combinations: a compiler takes seconds
few = pytest.mark.parametrize(
    ("variant", "K", "outputs"),
    [
        (("rnn", {"activation": "tanh"}), 3, "all"),
        (("lstm", {}), 3, "mean"),
        (("gru", {"reset_after": True}), 20, "last"),
        (("lru", {"candidate": "highway"}), 20, "all"),
    ],
    ids=["rnn", "lstm", "gru", "lru"],
)


@few
def test_registration_passes_the_checks_of_torch(variant, K, outputs):
    check_registration(variant, K, outputs)


@everywhere
def test_registration_passes_the_checks_of_torch_everywhere(variant, K, outputs):
    check_registration(variant, K, outputs)


def compiled(function, **options):
    torch.compiler.reset()  # or what other tests compiled counts against a limit
    return torch.compile(function, fullgraph=True, backend="aot_eager", **options)


def check_compiled_op(variant, K, outputs):
    layer = layer_of(variant, K)
    given = {name: t.requires_grad_() for name, t in layer.tensors.items()}

    def values(lengths):
        h, states = layer.run(lengths=lengths, outputs=outputs)
        return states if h is None else (h, *states)

    for lengths in (None, layer.lengths()):
        ours, theirs = compiled(values)(lengths), values(lengths)
        for our, their in zip(ours, theirs, strict=True):
            assert torch.equal(our, their)
        for our, their in zip(
            gradients(ours, given.values()),
            gradients(theirs, given.values()),
            strict=True,
        ):
            assert torch.equal(our, their)


@few
def test_compiled_op_equals_the_op(variant, K, outputs):
    check_compiled_op(variant, K, outputs)


@everywhere
def test_compiled_op_equals_the_op_everywhere(variant, K, outputs):
    check_compiled_op(variant, K, outputs)


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "rnn", "d_s": [1, 2, 1], "K": 3, "readout": "last+mean"},
        {"cell": "lru", "K": 20, "n_layers": 2},
        pytest.param({"cell": "gru", "K": 3, "readout": "all"}, marks=pytest.mark.slow),
        pytest.param(
            {"cell": "lstm", "K": 20, "n_layers": 2, "bidirectional": True},
            marks=pytest.mark.slow,
        ),
    ],
    ids=lambda options: options["cell"],
)
def test_compiled_net_equals_the_net(options):
    generator = torch.Generator().manual_seed(0)
    net = RecurrentNet(3, 2, **options, dtype=torch.float64, generator=generator)
    parameters, compiled_net = list(net.parameters()), compiled(net, dynamic=True)
    for N, T in ((4, 6), (5, 9)):
        x = torch.randn(N, T, 3, generator=generator, dtype=torch.float64)
        lengths = torch.randint(1, T + 1, (N,), generator=generator)
        ours, theirs = compiled_net(x, lengths), net(x, lengths)
        assert_close(ours, theirs)
        for our, their in zip(
            gradients([ours], parameters), gradients([theirs], parameters), strict=True
        ):
            assert_close(our, their)


# torch deprecates the second, and warns of the checks at an op's door
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(
    "trace", [lambda f, x: make_fx(f)(x), torch.jit.trace], ids=["make_fx", "jit"]
)
def test_traced_op_equals_the_op(trace):
    layer = layer_of(VARIANTS[0])

    def h_of(x):
        return layer.run(x=x)[0]

    x = layer.tensors["x"]
    traced = trace(h_of, x)
    assert torch.equal(traced(2.0 * x), h_of(2.0 * x))


def test_compiled_op_refuses_lengths_outside_the_sequence():
    layer = layer_of(VARIANTS[0])
    run = compiled(layer.run)
    run(lengths=torch.tensor([5, 1, 0]))
    with pytest.raises(ValueError, match=r"T=5 steps, lengths\[1\] is 6"):
        run(lengths=torch.tensor([5, 6, 1]))


# -- what it returns and keeps ---------------------------------------------------------


class Watched(torch.Tensor):
    """A tensor that notes which operators it comes by."""

    operators: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.operators.append(func)
        return super().__torch_function__(func, types, args, kwargs or {})


@variants
@widths
def test_an_op_equals_its_operator(variant, K):
    """With plain tensors an op calls by itself what the operator would call."""
    layer = layer_of(variant, K)
    direct = layer.run_and_gradients(backend="cpu")
    layer.tensors["x"] = layer.tensors["x"].as_subclass(Watched)
    Watched.operators.clear()
    watched = layer.run_and_gradients(backend="cpu")
    assert scan in Watched.operators
    assert_equal(
        {name: value.as_subclass(torch.Tensor) for name, value in watched.items()},
        direct,
    )


@variants
@widths
def test_what_is_not_there_is_empty(variant, K):
    layer = layer_of(variant, K)
    h, h_last, c_last, checkpoints, p = scan(*arguments_of(layer, "last", save=False))
    assert h_last.shape == (layer.N, layer.d)
    assert (c_last.numel() > 0) == ("c" in layer.spec.states)
    assert h.numel() == checkpoints.numel() == p.numel() == 0


@variants
@widths
def test_each_gradient_alone_is_that_of_all(variant, K):
    layer = layer_of(variant, K)
    every = layer.run_and_gradients(backend="cpu")
    for name in layer.tensors:
        others = {other: t for other, t in layer.tensors.items() if other != name}
        alone = layer.run_and_gradients(backend="cpu", **others)
        assert torch.equal(alone[f"d{name}"], every[f"d{name}"]), name


@variants
@widths
def test_inputs_are_not_written_to(variant, K):
    layer = layer_of(variant, K)
    before = {name: t.clone() for name, t in layer.tensors.items()}
    layer.run_and_gradients(backend="cpu", lengths=layer.lengths())
    assert_equal(layer.tensors, before)


@variants
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_a_wide_input_may_run_in_pieces(variant, outputs, monkeypatch):
    layer = layer_of(variant, K=20, N=7)
    layer.tensors["x"][1, 3:] = torch.nan
    how = {"lengths": torch.tensor([5, 3, 0, 5, 1, 2, 4]), "outputs": outputs}
    whole = layer.run_and_gradients(**how, backend="cpu")
    monkeypatch.setattr(_scan_cpu, "PIECE_BYTES", 1)
    monkeypatch.setattr(_scan_cpu, "PIECE_ROWS", 3)  # so in pieces of 3, 3 and 1
    for name, value in layer.run_and_gradients(**how, backend="cpu").items():
        assert_close(value, whole[name])
    with torch.no_grad():
        h, (h_last, *_) = layer.run(**how, backend="cpu")
    assert_close(h_last, whole["h_last"])
    if h is not None:
        assert_close(h, whole["h"])


@variants
def test_backward_can_run_twice(variant):
    layer = layer_of(variant, K=20)
    given = [t.requires_grad_() for t in layer.tensors.values()]
    h, _ = layer.run(backend="cpu")
    first = torch.autograd.grad(h.sum(), given, retain_graph=True)
    for one, other in zip(first, torch.autograd.grad(h.sum(), given), strict=True):
        assert torch.equal(one, other)


def test_nothing_is_kept_without_need():
    layer = layer_of(VARIANTS[0])
    for tensor in layer.tensors.values():
        tensor.requires_grad_()
    with torch.no_grad():
        h, (h_last,) = layer.run(backend="cpu")
    assert h.grad_fn is None
    assert h_last.grad_fn is None
    with torch.inference_mode():
        h, _ = layer.run(backend="cpu")
    assert h.is_inference()


# -- what it refuses -------------------------------------------------------------------


@variants
def test_second_derivatives_name_the_reference(variant):
    layer = layer_of(variant)
    given = [t.requires_grad_() for t in layer.tensors.values()]

    def first_derivatives(backend):
        h, _ = layer.run(backend=backend)
        return torch.autograd.grad(h.square().sum(), given, create_graph=True)

    for ours, theirs in zip(*map(first_derivatives, ("cpu", "reference")), strict=True):
        assert_close(ours, theirs)
    with pytest.raises(NotImplementedError, match="use backend='reference'"):
        gradients(first_derivatives("cpu"), given)
    gradients(first_derivatives("reference"), given)


def test_the_operator_without_checkpoints_has_no_gradient():
    arguments = requiring_gradients(arguments_of(layer_of(VARIANTS[0]), save=False))
    h, *_ = scan(*arguments)
    with pytest.raises(RuntimeError, match="save=False"):
        h.sum().backward()


def transformed(transform, layer, backend):
    """What a transform of torch.func makes of the op as a function of x."""

    def h_of(x):
        return layer.run(x=x, backend=backend)[0]

    x = layer.tensors["x"]
    if transform == "grad":
        return torch.func.grad(lambda x: h_of(x).square().sum())(x)
    if transform == "jvp":
        return torch.func.jvp(h_of, (x,), (x,))[1]
    return torch.func.vmap(h_of)(torch.stack([x, 2.0 * x]))


# torch compiles what it needs for forward mode in a way that it deprecates
forward_mode = pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning"
)


@forward_mode
@pytest.mark.parametrize("transform", ["grad", "jvp", "vmap"])
def test_transforms_are_left_to_the_reference(transform):
    layer = layer_of(VARIANTS[0])
    with pytest.raises(
        ValueError, match=r"backend='cpu' has no torch\.func transforms"
    ):
        transformed(transform, layer, "cpu")
    ours, theirs = (
        transformed(transform, layer, name) for name in ("auto", "reference")
    )
    assert torch.equal(ours, theirs)


@forward_mode
def test_forward_mode_derivatives_are_left_to_the_reference():
    layer, forward_ad = layer_of(VARIANTS[0]), torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(layer.tensors["x"], layer.tensors["x"])
        with pytest.raises(ValueError, match="no forward-mode derivatives"):
            layer.run(x=x, backend="cpu")
        ours, theirs = (
            forward_ad.unpack_dual(layer.run(x=x, backend=name)[0]).tangent
            for name in ("auto", "reference")
        )
    assert torch.equal(ours, theirs)


# -- what else torch may do to its inputs ----------------------------------------------


def spread(tensor):
    """The same numbers with a gap after each."""
    gaps = torch.full((*tensor.shape, 2), torch.nan, dtype=tensor.dtype)
    gaps[..., 0] = tensor
    return gaps[..., 0]


def shifted(tensor):
    """The same numbers at an address that no vector is aligned to."""
    storage = torch.full((tensor.numel() + 1,), torch.nan, dtype=tensor.dtype)
    storage[1:] = tensor.flatten()
    return storage[1:].view(tensor.shape)


@variants
@widths
@pytest.mark.parametrize("move", [spread, shifted])
def test_numbers_may_lie_anywhere(variant, K, move, dtype):
    layer = layer_of(variant, K, dtype)
    expected = layer.run_and_gradients(backend="cpu")
    layer.tensors = {name: move(tensor) for name, tensor in layer.tensors.items()}
    # not to the last bit: matrix products of torch sum in an order that depends on it
    for name, value in layer.run_and_gradients(backend="cpu").items():
        assert_close(value, expected[name])


@widths
def test_a_negation_that_torch_put_off_is_done(K):
    layer = layer_of(VARIANTS[0], K)
    expected, _ = layer.run(backend="cpu")
    x = torch.complex(layer.tensors["x"], -layer.tensors["x"]).conj().imag
    assert x.is_neg()
    h, _ = layer.run(x=x, backend="cpu")
    assert torch.equal(h, expected)


@variants
@widths
def test_autocast_changes_nothing(variant, K):
    layer = layer_of(variant, K, torch.float32)
    expected = layer.run_and_gradients(backend="cpu")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = layer.run_and_gradients(backend="cpu")
    assert_equal(actual, expected)


def arguments_of_scan(**changes):
    arguments = {
        "x": torch.zeros(3, 5, 2),
        "weight_x": torch.zeros(1, 6, 2),
        "weight_h": torch.zeros(1, 3, 2, 2),
        "bias": torch.zeros(1, 6),
        "bias_q": None,
        "h0": None,
        "c0": None,
        "lengths": None,
        "cell": "rnn",
        "option": "tanh",
        "reverse": False,
        "outputs": "last",
        "save": True,
    }
    return list((arguments | changes).values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.zeros(3, 5, 2).half()}, "scan expects x as float32 or float64"),
        ({"x": torch.zeros(3, 5, 2, dtype=torch.int32)}, "scan expects x as float32"),
        ({"x": torch.zeros(5, 2)}, r"shape \(N, T, d_in\); got .* shape \(5, 2\)"),
        ({"x": torch.zeros(3, 0, 2)}, "at least one step"),
        ({"lengths": torch.tensor([5, 5, 5], dtype=torch.int32)}, "expects lengths as"),
        ({"lengths": torch.tensor([5, 5])}, "scan expects lengths as"),
        ({"lengths": torch.tensor([5, 5, 6])}, r"lengths\[2\] is 6"),
        ({"weight_x": torch.zeros(1, 6, 3)}, "scan expects weight_x as"),
        ({"weight_h": torch.zeros(1, 3, 2, 1)}, "scan expects weight_h as"),
        ({"weight_h": torch.zeros(3, 2, 2)}, r"weight_h of shape \(R, K, d_s, d_s\)"),
        ({"bias": torch.zeros(1, 6, dtype=torch.float64)}, "scan expects bias as"),
        ({"h0": torch.zeros(2, 6)}, "scan expects h0 as"),
        ({"cell": "lstm", "option": ""}, r"scan expects weight_x as .* \(4, 6, 2\)"),
        ({"cell": "lru", "option": "highway"}, "as many features as units"),
        ({"cell": "rnn", "option": ""}, "scan's cell and option must be one of"),
        ({"outputs": "first"}, "scan's outputs must be one of"),
    ],
)
def test_the_operator_itself_refuses_what_the_kernel_cannot_read(changes, message):
    with pytest.raises(ValueError, match=message):
        torch.ops.skpararnn.scan(*arguments_of_scan(**changes))


@pytest.mark.parametrize("d_in", [2, 40])
@pytest.mark.parametrize(
    ("position", "wrong", "message"),
    [
        (0, torch.ones(1), "scan expects dh as"),
        (0, torch.ones(3, 5, 6).double(), "scan expects dh as"),
        (1, torch.ones(2), "scan expects dh_last as"),
        (2, torch.ones(3, 6), "scan expects dc_last as"),
        (12, torch.empty(0), "scan expects checkpoints as"),
        (13, torch.empty(1, 1, 1, 1), "scan expects p as"),
        (18, [True] * 4, "wanted as 7 of True and False"),
        (18, [True] * 7, "False for tensors that are not given"),
    ],
)
def test_the_operator_for_gradients_refuses_as_well(d_in, position, wrong, message):
    x, weight_x = torch.zeros(3, 5, d_in), torch.zeros(1, 6, d_in)
    forward = arguments_of_scan(x=x, weight_x=weight_x, outputs="all")
    h, h_last, _, *kept = torch.ops.skpararnn.scan(*forward)
    wanted = [True] * 4 + [False] * 3
    arguments = [h, h_last, None, *forward[:8], None, *kept, *forward[8:12], wanted]
    torch.ops.skpararnn.scan_backward(*arguments)
    arguments[position] = wrong
    with pytest.raises(ValueError, match=message):
        torch.ops.skpararnn.scan_backward(*arguments)


def test_lengths_may_change_between_forward_and_backward():
    x, lengths = torch.ones(2, 5, 2, requires_grad=True), np.array([3, 5])
    weights = torch.ones(1, 6, 2), torch.zeros(1, 3, 2, 2), torch.zeros(1, 6)
    h, _ = rnn(x, *weights, lengths=lengths, backend="cpu")
    lengths[:] = 10**7
    h.sum().backward()
    assert not x.grad[0, 3:].any()
    assert x.grad[0, :3].any()


def test_a_tensor_without_memory_is_refused():
    x = torch.ones(2, 5, 2)
    weights = torch.ones(1, 6, 2), torch.zeros(1, 3, 2, 2), torch.zeros(1, 6)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="no memory; choose backend='reference'"):
        rnn(x, *weights, backend="cpu")
