"""The CPU kernel at the sizes where its loops begin, end and change."""

import random
from itertools import combinations, cycle, product

import pytest
import torch
from tolerances import assert_close

from skpararnn.ops._scan_cpu import CHUNKS, NARROW

from .layers import VARIANTS, bounded_layer, variant_id

pytestmark = pytest.mark.usefixtures("kernel")

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)

# What the kernel treats on its own: block sizes with a loop of their own, those
# without, those whose units fill the vectors; K and N that leave a rest in every vector
# and tile; T beside the ends of a chunk; d_in on both sides of the widest that is
# projected there.
CHOICES = {
    "d_s": [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33],
    "K": [1, 2, 5, 17],
    "N": [1, 2, 9, 20],
    "T": ["1", "chunk", "chunk+1", "3chunk-1"],
    "d_in": [1, 2, 8, NARROW - 1, NARROW, NARROW + 1, 40],
    "outputs": ["all", "last", "mean"],
    "reverse": [False, True],
    "padded": [False, True],
}


def pairwise(choices, seed):
    """Few combinations in which every two values of two choices meet.

    Each is the best of some drawn at random, by how many new pairs of values it has.
    """
    generator = random.Random(seed)
    names = list(choices)
    left = {
        ((a, x), (b, y))
        for a, b in combinations(names, 2)
        for x, y in product(choices[a], choices[b])
    }
    while left:
        start = dict(generator.choice(sorted(left, key=str)))
        drawn = [
            {name: generator.choice(choices[name]) for name in names} | start
            for _ in range(30)
        ]
        best = max(drawn, key=lambda row: len(pairs_of(row) & left))
        left -= pairs_of(best)
        yield best


def pairs_of(row):
    return set(combinations(row.items(), 2))


def steps_of(cell, name):
    chunk = CHUNKS[cell]
    return {"1": 1, "chunk": chunk, "chunk+1": chunk + 1, "3chunk-1": 3 * chunk - 1}[
        name
    ]


def layer_of(variant, dtype=torch.float64, **sizes):
    """A layer whose states stay bounded and whose gates stay open, however wide."""
    layer = bounded_layer(variant, dtype, **sizes)
    layer.tensors["weight_x"] *= layer.d_in**-0.5
    return layer


def lengths_of(layer):
    """Lengths that differ, with 0 and T where there are rows enough."""
    lengths = layer.lengths()
    if layer.N > 1:
        lengths[0] = 0
    return lengths


def check(variant, *, T, outputs, reverse, padded, **sizes):
    """Hold outputs, last states and every gradient against the reference in float64."""
    layer = layer_of(variant, torch.float32, T=steps_of(variant[0], T), **sizes)
    lengths = lengths_of(layer) if padded else None
    how = {"outputs": outputs, "reverse": reverse, "lengths": lengths}
    singles = layer.tensors
    layer.tensors = {name: tensor.double() for name, tensor in singles.items()}
    truth = layer.run_and_gradients(**how, backend="reference")
    assert_all_close(layer.run_and_gradients(**how, backend="cpu"), truth)
    if layer.options.get("activation") != "relu":  # rounding may cross its kink
        layer.tensors = singles
        assert_all_close(layer.run_and_gradients(**how, backend="cpu"), truth)


def assert_all_close(actual, expected):
    """Hold results by name against others.

    In float32 gradients are less exact: those of the parameters are sums over up to
    2000 steps, that of x over up to 2000 units and gates, whose terms partly cancel.
    And a gate is exact to 2e-7 of 1, not of itself, which shows where one unit that is
    nearly shut is all there is.
    """
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        is_single = value.dtype == torch.float32
        is_sum = name.startswith("d") and is_single
        scale = 0.1 if is_single else 0.0
        assert_close(value, expected[name], times=50 if is_sum else 1, scale=scale)


def row_id(row):
    return "-".join(f"{name}={value}" for name, value in row.items())


@pytest.mark.parametrize(
    ("variant", "row"),
    [
        pytest.param(variant, row, id=f"{variant_id(variant)}-{row_id(row)}")
        for seed, variant in enumerate(VARIANTS)
        for row in pairwise(CHOICES, seed)
    ],
)
def test_kernel_equals_reference(variant, row):
    check(variant, **row)


@pytest.mark.slow
@variants
@pytest.mark.parametrize("d_s", CHOICES["d_s"])
@pytest.mark.parametrize("K", CHOICES["K"])
def test_kernel_equals_reference_at_every_size(variant, d_s, K):
    """Every N, T and d_in; outputs, direction and padding take turns."""
    sizes = {name: CHOICES[name] for name in ("N", "T", "d_in")}
    if variant[1].get("candidate") == "highway":
        sizes["d_in"] = [0]  # it is d
    ways = {name: CHOICES[name] for name in ("outputs", "reverse", "padded")}
    turns = cycle(product(*ways.values()))
    for values in product(*sizes.values()):
        row = dict(zip((*sizes, *ways), (*values, *next(turns)), strict=True))
        check(variant, d_s=d_s, K=K, **row)


# -- gradients against finite differences ----------------------------------------------


@variants
@pytest.mark.parametrize(
    ("K", "d_s", "d_in"),
    [(33, 1, 33), (1, 7, 2), (1, 33, 34)],
    ids=["wide", "dense", "wide and dense"],
)
def test_gradients_are_those_of_finite_differences(variant, K, d_s, d_in):
    layer = layer_of(variant, N=2, T=2, d_in=d_in, K=K, d_s=d_s)
    how = {"lengths": torch.tensor([2, 1]), "backend": "cpu"}
    given = [t.requires_grad_() for t in layer.tensors.values()]

    def values(*tensors):
        h, states = layer.run(**dict(zip(layer.tensors, tensors, strict=True)), **how)
        return h, *states

    # fast: one random direction of each tensor instead of each of its 1000s of numbers
    assert torch.autograd.gradcheck(values, given, fast_mode=True)


# -- where the numbers lie -------------------------------------------------------------


def time_first(tensor):
    """As torch.nn's layers hold their input by default."""
    return tensor.transpose(0, 1).contiguous().transpose(0, 1)


def same_in_every_row(tensor):
    return tensor[:1].expand_as(tensor)


def last_axis_first(tensor):
    return tensor.movedim(-1, 0).contiguous().movedim(0, -1)


@variants
@pytest.mark.parametrize("d_in", [3, NARROW + 1])
@pytest.mark.parametrize("move", [time_first, same_in_every_row, last_axis_first])
def test_numbers_need_not_be_contiguous(variant, d_in, move):
    layer = layer_of(variant, N=5, T=4, d_in=d_in, K=33, d_s=1)
    rows = [name for name in ("x", "h0", "c0") if name in layer.tensors]
    every = [name for name, tensor in layer.tensors.items() if tensor.ndim > 1]
    names = rows if move is same_in_every_row else every
    moved = {name: move(layer.tensors[name]) for name in names}
    assert not moved["x"].is_contiguous()
    layer.tensors |= {name: tensor.contiguous() for name, tensor in moved.items()}
    expected = layer.run_and_gradients(backend="cpu")
    layer.tensors |= moved
    assert_all_close(layer.run_and_gradients(backend="cpu"), expected)


# -- memory ----------------------------------------------------------------------------


def kept_for_backward(layer, outputs):
    """How many numbers autograd keeps besides the arguments, storages counted once."""
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    given = {name: t.requires_grad_() for name, t in layer.tensors.items()}
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        alive = layer.run(outputs=outputs, backend="cpu")
    for tensor in given.values():
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    del alive
    return sum(storage.nbytes() for storage in kept.values()) / 8


@variants
@pytest.mark.parametrize("outputs", ["last", "mean"])
def test_a_sixteenth_of_the_states_is_kept(variant, outputs):
    layer = layer_of(variant, N=3, T=96, d_in=2, K=5, d_s=2)
    states = len(layer.spec.states) * layer.N * layer.T * layer.d
    assert 0 < kept_for_backward(layer, outputs) <= states / 16
