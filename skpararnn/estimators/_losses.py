"""Losses by row, and what else depends on the kind of target."""

import numpy as np
import torch
from sklearn.metrics import accuracy_score, r2_score


class CrossEntropy(torch.nn.Module):
    """Loss and score of a classifier, scores (N, n_classes) and class numbers (N,)."""

    score_name = "accuracy"

    def forward(self, output, target):
        """Loss of each row, (N,)."""
        return torch.nn.functional.cross_entropy(output, target, reduction="none")

    def answer(self, output):
        """Class numbers, (N,)."""
        return output.argmax(axis=1)

    def score(self, output, target, weight):
        """Share of right answers."""
        return accuracy_score(target, self.answer(output), sample_weight=weight)


class SquaredError(torch.nn.Module):
    """Loss and score of a regressor, both sides (N, n_outputs)."""

    score_name = "r2"

    def forward(self, output, target):
        """Loss of each row, the mean over its outputs, (N,)."""
        return (output - target).square().mean(dim=1)

    def answer(self, output):
        """Scaled values as they are."""
        return output

    def score(self, output, target, weight):
        """R2, which does not depend on the scale of the target."""
        if len(target) < 2:
            return np.nan
        return r2_score(target, output, sample_weight=weight)
