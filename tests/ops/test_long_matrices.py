"""The contract over many sizes and over long sequences; too long for every day."""

import pytest
import torch
from tolerances import assert_close

from .layers import VARIANTS, bounded_layer, variant_id
from .test_common import assert_same

pytestmark = pytest.mark.slow

variants = pytest.mark.parametrize("variant", VARIANTS, ids=variant_id)


def assert_both_close(ours, theirs):
    """Hold two sides that both round against their middle.

    The tolerance is for one of them against the truth. A truth in float64 would ask for
    more than float32 has: with one unit a gradient is a sum that may cancel to nothing,
    and there is no larger entry to measure its rounding by.
    """
    middle = {name: (v.double() + theirs[name]) / 2 for name, v in ours.items()}
    assert_same(ours, middle)
    assert_same(theirs, middle)


@variants
@pytest.mark.parametrize("d_s", [1, 2, 3, 4, 5, 8, 16, 33])
@pytest.mark.parametrize("K", [1, 2, 7, 17])
@pytest.mark.parametrize("N", [1, 3, 33])
def test_blocks_equal_the_dense_layer_at_every_size(variant, d_s, K, N, dtype):
    layer = bounded_layer(variant, dtype, N=N, T=6, d_in=5, K=K, d_s=d_s)
    gates = [torch.block_diag(*gate) for gate in layer.tensors["weight_h"]]
    dense = torch.stack(gates)[:, None]
    lengths = layer.lengths()
    for reverse in (False, True):
        for outputs in ("all", "last", "mean"):
            how = {"lengths": lengths, "reverse": reverse, "outputs": outputs}
            ours = layer.run_and_gradients(**how)
            theirs = layer.run_and_gradients(**how, weight_h=dense)
            del ours["dweight_h"]
            assert_both_close(ours, theirs)


@variants
@pytest.mark.parametrize("T", [257, 2000])
def test_long_runs_equal_runs_in_pieces(variant, T, dtype):
    layer = bounded_layer(variant, dtype, N=2, T=T, d_in=2, K=3, d_s=2)
    x = layer.tensors["x"]
    whole, last = layer.run()
    pieces, states = [], {}
    for part in x.split(61, dim=1):
        h, now = layer.run(x=part, **states)
        states = {f"{name}0": s for name, s in zip(("h", "c"), now, strict=False)}
        pieces.append(h)
    assert_close(torch.cat(pieces, dim=1), whole)
    for ours, theirs in zip(now, last, strict=True):
        assert_close(ours, theirs)
