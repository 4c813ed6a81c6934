"""Data sets of sequences, and the batches that are cut from them."""

import numpy as np
import torch


class SequenceDataset(torch.utils.data.Dataset):
    """Sequences with their encoded targets and weights.

    Parameters
    ----------
    sequences : Sequences
    target : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Class numbers, or scaled values; these get the type of the sequences.
    weight : ndarray of shape (n_samples,) or None
    """

    def __init__(self, sequences, target, weight=None):
        self.sequences = sequences
        if target.dtype.kind == "f":
            target = target.astype(sequences.values.dtype)
        self.target = target
        self.weight = weight

    def __len__(self):
        return len(self.sequences)

    def __getitem__(self, i):
        return self.batch(np.array([i]))

    def take(self, rows):
        """The part of these rows."""
        weight = None if self.weight is None else self.weight[rows]
        return SequenceDataset(self.sequences.take(rows), self.target[rows], weight)

    def batch(self, rows):
        """Inputs and targets of these rows as skorch wants them.

        Returns
        -------
        inputs : dict of tensors
            ``x`` (N, T, d_in), zeros after the last real step, ``lengths`` (N,), and
            if there are weights ``weight`` (N,).
        target : tensor of shape (N,) or (N, n_outputs)
        """
        x, lengths = self.sequences.padded(rows)
        inputs = {"x": torch.from_numpy(x), "lengths": torch.from_numpy(lengths)}
        if self.weight is not None:
            inputs["weight"] = torch.from_numpy(self.weight[rows])
        return inputs, torch.from_numpy(self.target[rows])


class BatchIterator:
    """Cut a dataset into batches by slicing; nothing is collated row by row.

    Parameters
    ----------
    dataset : SequenceDataset
    batch_size : int
    generator : torch.Generator, default=None
        Shuffles the rows anew in each pass; None keeps their order.
    """

    def __init__(self, dataset, batch_size, generator=None):
        self.dataset = dataset
        self.batch_size = batch_size
        self.generator = generator

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        n = len(self.dataset)
        if self.generator is None:
            order = np.arange(n)
        else:
            order = torch.randperm(n, generator=self.generator).numpy()
        for start in range(0, n, self.batch_size):
            yield self.dataset.batch(order[start : start + self.batch_size])
