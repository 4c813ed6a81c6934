"""The contract of an op: every row of `CELLS` on every backend."""

import pytest
import torch
from tolerances import assert_close

from skpararnn.cells import CELLS

from .layers import VARIANTS, Layer, variant_id, wave

# ones, sizes that fill no register, K that is no power of two
SHAPES = [
    (3, 5, 2, 3, 2),
    (1, 1, 3, 5, 2),
    (1, 9, 4, 7, 1),
    (4, 1, 1, 5, 3),
    (2, 6, 1, 1, 5),
]
SHAPE_NAMES = ("N", "T", "d_in", "K", "d_s")

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)


def assert_same(actual, expected):
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert_close(value, expected[name])


# -- the same numbers everywhere -------------------------------------------------------


@variants
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_backend_equals_reference(variant, shape, outputs, reverse, dtype, backend):
    """Outputs, last states and every gradient; the reference runs in float64."""
    shape = dict(zip(SHAPE_NAMES, shape, strict=True))
    given, truth = Layer(variant, dtype, **shape), Layer(variant, **shape)
    truth.tensors = {name: t.double() for name, t in given.tensors.items()}
    how = {"lengths": given.lengths(), "reverse": reverse, "outputs": outputs}
    assert_same(
        given.run_and_gradients(**how, backend=backend),
        truth.run_and_gradients(**how, backend="reference"),
    )


@variants
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_gradients_are_those_of_finite_differences(variant, reverse, backend):
    layer = Layer(variant, N=2, T=3, K=2, d_s=2)
    how = {"lengths": torch.tensor([3, 2]), "reverse": reverse, "backend": backend}
    names = list(layer.tensors)

    def values(*tensors):
        h, states = layer.run(**dict(zip(names, tensors, strict=True)), **how)
        return h, *states

    given = [t.requires_grad_() for t in layer.tensors.values()]
    assert torch.autograd.gradcheck(values, given)


@variants
def test_blocks_equal_the_dense_layer(variant, dtype, backend):
    layer = Layer(variant, dtype, K=3, d_s=2)
    blocks = layer.tensors["weight_h"]
    dense = torch.stack([torch.block_diag(*gate) for gate in blocks])[:, None]
    ours = layer.run_and_gradients(backend=backend)
    theirs = layer.run_and_gradients(backend=backend, weight_h=dense)
    ours.pop("dweight_h")
    assert_same(ours, theirs)


@variants
def test_permuting_blocks_permutes_outputs(variant, backend):
    layer = Layer(variant, K=4, d_s=3)
    blocks = torch.tensor([2, 0, 3, 1])
    units = (blocks[:, None] * 3 + torch.arange(3)).flatten()
    moved = {
        name: t[:, blocks] if name == "weight_h" else t[:, units]
        for name, t in layer.tensors.items()
        if name in ("weight_x", "weight_h", "bias", "h0", "c0")
    }
    if "bias_q" in layer.tensors:
        moved["bias_q"] = layer.tensors["bias_q"][units]
    if layer.options.get("candidate") == "highway":  # the input has the units' order
        moved["x"] = layer.tensors["x"][:, :, units]
        moved["weight_x"] = moved["weight_x"][:, :, units]
    h, states = layer.run(backend=backend)
    h_moved, states_moved = layer.run(backend=backend, **moved)
    assert_close(h_moved, h[:, :, units])
    for state, state_moved in zip(states, states_moved, strict=True):
        assert_close(state_moved, state[:, units])


TWINS = {
    "rnn": torch.nn.RNN,
    "lstm": torch.nn.LSTM,
    "gru": torch.nn.GRU,
}
TWIN_VARIANTS = [
    (cell, options)
    for cell, options in VARIANTS
    if cell in TWINS
    and options.get("activation") in (None, "tanh", "relu")
    and options.get("reset_after", True)
]


def torch_twin(layer):
    """The layer of torch.nn, with its second bias at zero where it is superfluous."""
    activation = layer.options.get("activation")
    options = {"nonlinearity": activation} if activation else {}
    with torch.random.fork_rng(devices=[]):
        twin = TWINS[layer.cell](layer.d_in, layer.d, batch_first=True, **options)
    second = torch.zeros_like(layer.tensors["bias"])
    if "bias_q" in layer.tensors:
        second[2] = layer.tensors["bias_q"]
    values = {
        "weight_ih_l0": layer.tensors["weight_x"].flatten(0, 1),
        "weight_hh_l0": layer.tensors["weight_h"].flatten(0, 2),
        "bias_ih_l0": layer.tensors["bias"].flatten(),
        "bias_hh_l0": second.flatten(),
    }
    twin.to(second.dtype).load_state_dict(values)
    return twin


@pytest.mark.parametrize("variant", TWIN_VARIANTS, ids=variant_id)
def test_one_block_equals_torch(variant, dtype, backend):
    layer = Layer(variant, dtype, N=4, T=6, d_in=3, K=1, d_s=5)
    twin = torch_twin(layer)
    x = layer.tensors["x"]
    first = tuple(layer.tensors[f"{name}0"][None] for name in layer.spec.states)
    lengths = torch.tensor([6, 5, 2, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    out, last = twin(packed, first if len(first) > 1 else first[0])
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    last = last if isinstance(last, tuple) else (last,)

    h, states = layer.run(lengths=lengths, backend=backend)
    assert_close(h, out)
    for state, theirs in zip(states, last, strict=True):
        assert_close(state, theirs[0])


def gradients_of_torch(layer, lengths):
    """Gradients of the twin with the names and shapes that the op's have."""
    given = {
        name: layer.tensors[name].clone().requires_grad_()
        for name in ("x", *(f"{name}0" for name in layer.spec.states))
    }
    x, *first = given.values()
    first = tuple(state[None] for state in first)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    twin = torch_twin(layer)
    out, last = twin(packed, first if len(first) > 1 else first[0])
    out, _ = torch.nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
    last = last if isinstance(last, tuple) else (last,)
    loss = sum((v * wave(v)).sum() for v in (out, *(state[0] for state in last)))
    loss.backward()

    G, grads = len(layer.spec.gates), {f"d{name}": t.grad for name, t in given.items()}
    grads["dweight_x"] = twin.weight_ih_l0.grad.reshape(G, layer.d, layer.d_in)
    grads["dweight_h"] = twin.weight_hh_l0.grad.reshape(G, 1, layer.d, layer.d)
    grads["dbias"] = twin.bias_ih_l0.grad.reshape(G, layer.d)
    if "bias_q" in layer.tensors:
        grads["dbias_q"] = twin.bias_hh_l0.grad.reshape(G, layer.d)[2]
    return grads


@pytest.mark.parametrize("variant", TWIN_VARIANTS, ids=variant_id)
def test_gradients_of_one_block_equal_torch(variant, dtype, backend):
    layer = Layer(variant, dtype, N=4, T=6, d_in=3, K=1, d_s=5)
    lengths = torch.tensor([6, 5, 2, 1])
    ours = layer.run_and_gradients(lengths=lengths, backend=backend)
    ours = {f"d{name}": ours[f"d{name}"] for name in layer.tensors}
    assert_same(ours, gradients_of_torch(layer, lengths))


# -- time and padding ------------------------------------------------------------------


@variants
def test_rows_do_not_mix(variant, dtype, backend):
    layer = Layer(variant, dtype, N=4)
    lengths = layer.lengths()
    h, states = layer.run(lengths=lengths, backend=backend)
    for n in range(4):
        row = slice(n, n + 1)
        alone = {
            name: layer.tensors[name][row]
            for name in ("x", "h0", "c0")
            if name in layer.tensors
        }
        h_n, states_n = layer.run(**alone, lengths=lengths[row], backend=backend)
        assert_close(h_n, h[row])
        for state_n, state in zip(states_n, states, strict=True):
            assert_close(state_n, state[row])


@variants
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_padding_is_as_if_it_were_not_there(variant, reverse, outputs, dtype, backend):
    """NaN at padded steps changes no value and no gradient, and gets gradient 0."""
    layer = Layer(variant, dtype, T=4)
    how = {"reverse": reverse, "outputs": outputs, "backend": backend}
    short = layer.run_and_gradients(**how)

    padding = torch.full_like(layer.tensors["x"][:, :3], float("nan"))
    layer.tensors["x"] = torch.cat([layer.tensors["x"], padding], dim=1)
    long = layer.run_and_gradients(**how, lengths=torch.tensor([4, 4, 4]))

    assert not long["dx"][:, 4:].any()
    long["dx"] = long["dx"][:, :4]
    if outputs == "all":
        assert not long["h"][:, 4:].any()
        long["h"] = long["h"][:, :4]
    assert_same(long, short)


@variants
def test_row_of_length_zero_keeps_its_state(variant, backend):
    layer = Layer(variant)
    lengths = torch.tensor([2, 0, 5])
    for outputs in ("all", "mean"):
        h, states = layer.run(lengths=lengths, outputs=outputs, backend=backend)
        assert not h[1].any()
        assert h[0].any()
        for name, state in zip(layer.spec.states, states, strict=True):
            assert torch.equal(state[1], layer.tensors[f"{name}0"][1])


@variants
def test_reverse_equals_reversed_sequences(variant, backend):
    layer = Layer(variant)
    lengths = torch.tensor([5, 2, 3])
    h, states = layer.run(lengths=lengths, reverse=True, backend=backend)
    x = layer.tensors["x"].clone()
    for n, length in enumerate(lengths):
        x[n, :length] = x[n, :length].flip(0)
    h_flipped, states_flipped = layer.run(x=x, lengths=lengths, backend=backend)
    for n, length in enumerate(lengths):
        assert_close(h[n, :length], h_flipped[n, :length].flip(0))
    for state, flipped in zip(states, states_flipped, strict=True):
        assert_close(state, flipped)


@variants
@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
def test_two_runs_equal_one(variant, reverse, dtype, backend):
    layer = Layer(variant, dtype, T=7)
    x = layer.tensors["x"]
    h, states = layer.run(reverse=reverse, backend=backend)
    parts = [x[:, :3], x[:, 3:]]
    first = {}
    hs = []
    for part in reversed(parts) if reverse else parts:
        h_part, last = layer.run(x=part, reverse=reverse, backend=backend, **first)
        names = [f"{name}0" for name in layer.spec.states]
        first = dict(zip(names, last, strict=True))
        hs.append(h_part)
    assert_close(torch.cat(hs[::-1] if reverse else hs, dim=1), h)
    for state, end in zip(states, last, strict=True):
        assert_close(end, state)


@variants
def test_a_state_depends_on_no_later_step(variant, backend):
    layer = Layer(variant, T=6)
    x = layer.tensors["x"].clone()
    x[:, 4:] += 1.0
    h, _ = layer.run(backend=backend)
    h_changed, _ = layer.run(x=x, backend=backend)
    assert_close(h_changed[:, :4], h[:, :4])
    assert not torch.allclose(h_changed[:, 4], h[:, 4])


@variants
def test_last_and_mean_are_those_of_all_outputs(variant, dtype, backend):
    layer = Layer(variant, dtype)
    lengths = torch.tensor([5, 2, 1])
    h, states = layer.run(lengths=lengths, backend=backend)
    none, last = layer.run(lengths=lengths, outputs="last", backend=backend)
    mean, last_too = layer.run(lengths=lengths, outputs="mean", backend=backend)
    assert none is None
    assert_close(mean, h.sum(dim=1) / lengths[:, None])
    assert_close(last[0], h[torch.arange(3), lengths - 1])
    for state, one, other in zip(states, last, last_too, strict=True):
        assert torch.equal(state, one)
        assert torch.equal(state, other)


@variants
def test_first_state_is_zero_or_shared_by_all_rows(variant, backend):
    layer = Layer(variant)
    names = [f"{name}0" for name in layer.spec.states]
    none = dict.fromkeys(names)
    zeros = {name: torch.zeros(layer.N, layer.d).double() for name in names}
    assert torch.equal(
        layer.run(**none, backend=backend)[0], layer.run(**zeros, backend=backend)[0]
    )
    one = {name: layer.tensors[name][0] for name in names}
    every = {name: state.repeat(layer.N, 1) for name, state in one.items()}
    assert torch.equal(
        layer.run(**one, backend=backend)[0], layer.run(**every, backend=backend)[0]
    )


@variants
def test_no_row_is_a_batch_too(variant, backend):
    layer = Layer(variant, N=1)
    empty = {
        name: layer.tensors[name][:0]
        for name in ("x", "h0", "c0")
        if name in layer.tensors
    }
    h, states = layer.run(**empty, backend=backend)
    assert h.shape == (0, layer.T, layer.d)
    assert states[0].shape == (0, layer.d)


# -- cost ------------------------------------------------------------------------------


def saved_numbers(layer, **how):
    """How many numbers autograd keeps for the backward pass, storages counted once."""
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        kept.append(tensor)  # alive, so that no address is used twice
        return tensor

    kept = []
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        layer.run_and_gradients(**how)
    return sum(storages.values()) / layer.tensors["x"].element_size()


@variants
@pytest.mark.parametrize("outputs", ["all", "last", "mean"])
def test_memory_for_backward_is_linear_in_time(variant, outputs, backend):
    how = {"outputs": outputs, "backend": backend}
    short, double, triple = (
        saved_numbers(Layer(variant, T=T, K=8), **how) for T in (32, 64, 96)
    )
    assert triple - double == pytest.approx(double - short, rel=0.05)


@variants
def test_time_for_backward_is_linear_in_time(variant):
    """No step owns a gradient of full size: nothing is selected out of a sequence."""
    layer = Layer(variant, T=4)
    given = {name: t.requires_grad_() for name, t in layer.tensors.items()}
    h, _ = layer.run(**given, backend="reference")
    seen, stack = set(), [h.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            stack.extend(parent for parent, _ in node.next_functions)
    names = [node.name() for node in seen]
    assert "UnbindBackward0" in names
    assert "SelectBackward0" not in names


# -- errors ----------------------------------------------------------------------------


def doubles(*shape):
    return torch.zeros(shape, dtype=torch.float64)


BAD = [
    ({"x": doubles(3, 2)}, ValueError, r"x must have shape \(N, T, d_in\).*\(3, 2\)"),
    ({"x": doubles(3, 0, 2)}, ValueError, "T=0"),
    ({"x": doubles(3, 5, 0)}, ValueError, "x has d_in=0 features"),
    ({"x": doubles(3, 5, 7)}, ValueError, "d_in=7.*weight_x has d_in="),
    ({"x": [[[0.0]]]}, TypeError, "x must be a torch.Tensor"),
    ({"x": doubles(3, 5, 6).to_sparse()}, TypeError, r"x is torch.sparse_coo; use"),
    ({"x": doubles(3, 5, 6).half()}, TypeError, "x is torch.float16"),
    ({"x": doubles(3, 5, 6).float()}, TypeError, "float32.*weight_x is torch.float64"),
    ({"weight_h": doubles(3, 2)}, ValueError, r"weight_h must have shape \(R, K"),
    ({"weight_h": doubles(9, 3, 2, 2)}, ValueError, "weight_h has 9 gates"),
    ({"h0": doubles(3, 8)}, ValueError, r"\(d=6\).*h0 has shape \(3, 8\)"),
    ({"h0": doubles(3, 6).float()}, TypeError, "x is torch.float64, h0 is"),
    ({"lengths": torch.tensor([5, 6, 1])}, ValueError, r"T=5.*lengths\[1\] is 6"),
    ({"lengths": torch.tensor([5, 1, -1])}, ValueError, r"lengths\[2\] is -1"),
    ({"lengths": torch.tensor([5, 1])}, ValueError, r"N=3.*shape \(2,\)"),
    ({"lengths": torch.tensor([5.0, 1, 1])}, TypeError, "integers.*float32"),
    ({"lengths": torch.tensor([True] * 3)}, TypeError, "integers.*bool"),
    ({"outputs": "first"}, ValueError, "outputs must be one of 'all', 'last', 'mean'"),
    ({"reverse": "no"}, ValueError, "reverse must be one of True, False; got .no."),
    ({"backend": "gpu"}, ValueError, "backend must be one of 'auto', 'cpu', 'tri"),
]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("change", "error", "message"), BAD)
def test_bad_argument_is_named(cell, change, error, message):
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    with pytest.raises(error, match=message):
        Layer(variant, K=3, d_s=2).run(**change)


@variants
def test_mismatch_of_weights_names_both_sides(variant):
    layer = Layer(variant, K=8, d_s=2)
    G = len(layer.spec.gates)
    with pytest.raises(
        ValueError, match=r"weight_h has K=8 blocks of size 2 \(d=16\), bias has d=32"
    ):
        layer.run(bias=doubles(G, 32))
    with pytest.raises(ValueError, match=r"\(d=16\), weight_x has d=4"):
        layer.run(weight_x=doubles(G, 4, layer.d_in))
    with pytest.raises(ValueError, match=f"bias has {G + 1} gates.*{G} of them"):
        layer.run(bias=doubles(G + 1, 16))
    with pytest.raises(ValueError, match=r"bias must have shape \(G, d\)"):
        layer.run(bias=doubles(16))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize(("K", "d_s"), [(0, 2), (2, 0)])
def test_a_layer_has_units(cell, K, d_s):
    variant = next(variant for variant in VARIANTS if variant[0] == cell)
    with pytest.raises(ValueError, match=f"K={K} blocks of size {d_s}.*at least one"):
        Layer(variant, K=K, d_s=d_s, d_in=2).run()


@variants
def test_no_row_has_no_length(variant):
    h, _ = Layer(variant, N=0).run(lengths=[])
    assert len(h) == 0


def test_devices_have_to_agree():
    layer = Layer(("rnn", {"activation": "tanh"}))
    with pytest.raises(ValueError, match="x is on cpu, bias is on meta"):
        layer.run(bias=layer.tensors["bias"].to("meta"))
