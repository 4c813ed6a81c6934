"""How far two ways of computing the same array may be apart."""

import torch

# of the array's largest entry; in float64 of 1 where that is smaller
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6}


def assert_close(actual, expected):
    """Hold a tensor against another, whose dtype may be wider."""
    assert actual.shape == expected.shape
    assert not actual.isnan().any()
    if actual.numel() == 0:
        return
    largest = expected.abs().max().item()
    if actual.dtype == torch.float64:
        largest = min(largest, 1.0)
    error = (actual.to(expected.dtype) - expected).abs().max().item()
    assert error <= TOLERANCES[actual.dtype] * largest
