"""How far two ways of computing the same array may be apart."""

import torch

# of the array's largest entry; in float64 of 1 where that is smaller
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6}


def assert_close(actual, expected, times=1, scale=0.0):
    """Hold a tensor against another, whose dtype may be wider.

    `times` widens the tolerance, `scale` counts as its largest entry if that is
    smaller; who gives them says why.
    """
    assert actual.shape == expected.shape
    assert not actual.isnan().any()
    if actual.numel() == 0:
        return
    largest = max(expected.abs().max().item(), scale)
    if actual.dtype == torch.float64:
        largest = min(largest, 1.0)
    error = (actual.to(expected.dtype) - expected).abs().max().item()
    # a kernel may count denormal numbers as zero, in each term of a sum
    denormal = 100 * torch.finfo(actual.dtype).tiny
    assert error <= times * TOLERANCES[actual.dtype] * largest + denormal
