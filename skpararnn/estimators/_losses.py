"""Losses, and what else depends on the kind of target."""

import numpy as np
import torch
from sklearn.metrics import accuracy_score, r2_score


class CrossEntropy(torch.nn.Module):
    """Loss and score of a classifier, scores (N, n_classes) and class numbers (N,)."""

    score_name = "accuracy"

    def forward(self, output, target, weight=None):
        """Mean over the rows; a row counts by its weight."""
        if weight is None:
            return torch.nn.functional.cross_entropy(output, target)
        losses = torch.nn.functional.cross_entropy(output, target, reduction="none")
        return _weighted_mean(losses, weight)

    def answer(self, output):
        """Class numbers, (N,)."""
        return output.argmax(axis=1)

    def score(self, output, target, weight):
        """Share of right answers."""
        return accuracy_score(target, self.answer(output), sample_weight=weight)


class SquaredError(torch.nn.Module):
    """Loss and score of a regressor, both sides (N, n_outputs)."""

    score_name = "r2"

    def forward(self, output, target, weight=None):
        """Mean over rows and outputs; a row counts by its weight."""
        if weight is None:
            return torch.nn.functional.mse_loss(output, target)
        return _weighted_mean((output - target).square().mean(dim=1), weight)

    def answer(self, output):
        """Scaled values as they are."""
        return output

    def score(self, output, target, weight):
        """R2, which does not depend on the scale of the target."""
        if len(target) < 2:
            return np.nan
        return r2_score(target, output, sample_weight=weight)


def _weighted_mean(losses, weight):
    return (weight * losses).sum() / weight.sum()
