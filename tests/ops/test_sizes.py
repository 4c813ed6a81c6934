"""The CPU kernel at the sizes where its loops begin, end and change."""

import random
from itertools import combinations, product

import pytest
import torch
from tolerances import assert_close

from skpararnn.ops._scan_cpu import CHUNKS, NARROW

from .layers import VARIANTS, bounded_layer, variant_id

pytestmark = pytest.mark.usefixtures("kernel")

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)

# What the kernel treats on its own: block sizes with a loop of their own, those without,
# those whose units fill the vectors; K and N that leave a rest in every vector and tile;
# T beside the ends of a chunk; d_in on both sides of the widest that is projected there.
CHOICES = {
    "d_s": [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33],
    "K": [1, 2, 5, 17],
    "N": [1, 2, 9, 20],
    "T": ["1", "chunk", "chunk + 1", "3 * chunk - 1"],
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
    return {
        "1": 1,
        "chunk": chunk,
        "chunk + 1": chunk + 1,
        "3 * chunk - 1": 3 * chunk - 1,
    }[name]


def layer_of(variant, sizes):
    """A layer whose states stay bounded and whose gates stay open, however wide."""
    sizes = sizes | {"T": steps_of(variant[0], sizes["T"])}
    layer = bounded_layer(variant, torch.float32, **sizes)
    layer.tensors["weight_x"] *= layer.d_in**-0.5
    return layer


def lengths_of(layer):
    """Lengths that differ, with 0 and T where there are rows enough."""
    lengths = layer.lengths()
    if layer.N > 1:
        lengths[0] = 0
    return lengths


def check(variant, *, outputs, reverse, padded, **sizes):
    """Hold outputs, last states and every gradient against the reference in float64."""
    layer = layer_of(variant, sizes)
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
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert_close(value, expected[name])


def row_id(row):
    return "-".join(map(str, row.values())).replace(" ", "")


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
