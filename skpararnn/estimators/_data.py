"""Data sets of sequences, and the batches that are cut from them."""

import numpy as np
import torch

from . import _device

# Batches that are sorted by length together. With lengths spread evenly from 0 a pool
# of M batches pads by a share of 1/M, batches drawn by chance by as much again as is
# real. Fewer mix the samples better; on Japanese vowels, where lengths tell speakers
# apart, the accuracy is the same for 1, 2, 4 and 8.
BATCHES_IN_POOL = 8

# Share of a card's free memory that the data may take. The net, its gradients and the
# states of a batch need room too, and so do other processes.
SHARE_OF_FREE_MEMORY = 1 / 4


class SequenceDataset(torch.utils.data.Dataset):
    """Samples: sequences with their encoded targets and weights.

    Parameters
    ----------
    sequences : Sequences
    target : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Class numbers, or scaled values; these get the type of the sequences.
    weight : ndarray of shape (n_samples,) or None
    rows : ndarray of int of shape (n_samples,), default=None
        The sequences of the samples; None stands for all of them, in their order.

    Attributes
    ----------
    lengths : ndarray of shape (n_samples,)
        Steps of each sample.
    ragged : bool
        Whether they differ.
    """

    def __init__(self, sequences, target, weight=None, rows=None):
        self.sequences = sequences
        if target.dtype.kind == "f":
            target = target.astype(sequences.values.dtype)
        self.target = target
        self.weight = weight
        self.rows = np.arange(len(sequences)) if rows is None else rows
        self.lengths = sequences.lengths[self.rows]
        self.ragged = (self.lengths != self.lengths[0]).any()
        self._tensors = _tensors(target=target, weight=weight, rows=self.rows)
        self._block = _as_tensor(sequences.block)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.batch(torch.tensor([i]))

    def take(self, numbers):
        """The part of these samples; values are shared, not copied."""
        weight = None if self.weight is None else self.weight[numbers]
        return SequenceDataset(
            self.sequences, self.target[numbers], weight, self.rows[numbers]
        )

    def batches(self, chosen):
        """Iterate over batches, each of the samples that a tensor of numbers names."""
        return map(self.batch, chosen)

    def batch(self, numbers):
        """Inputs and targets of these samples as skorch wants them.

        Parameters
        ----------
        numbers : tensor of int64 of shape (N,)

        Returns
        -------
        inputs : dict of tensors
            ``x`` (N, T, d_in). If the samples differ in length, zeros follow the last
            real step, and there is ``lengths`` (N,). If there are weights, there is
            ``weight`` (N,).
        target : tensor of shape (N,) or (N, n_outputs)
        """
        chosen = {
            name: tensor.index_select(0, numbers)
            for name, tensor in self._tensors.items()
        }
        return self._inputs(**chosen), chosen["target"]

    def _inputs(self, rows, target, **weight):
        if self._block is not None:
            return {"x": self._block.index_select(0, rows), **weight}
        rows = rows.numpy()
        x, lengths = self.sequences.padded(rows, self._n_timesteps(rows))
        inputs = {"x": torch.from_numpy(x), **weight}
        if self.ragged:
            inputs["lengths"] = torch.from_numpy(lengths)
        return inputs

    def _n_timesteps(self, rows):
        """Steps of a batch of these sequences; None for those of the longest one."""
        return None


class _CardDataset(SequenceDataset):
    """Samples whose batches come on a card.

    Batches of unequal lengths have one of a few numbers of steps, so that their shapes
    come again.
    """

    def __init__(self, dataset, device):
        vars(self).update(vars(dataset))
        self.device = _device.as_torch(device)

    def _n_timesteps(self, rows):
        longest = self.sequences.lengths[rows].max()
        return int(min(round_up(longest), self.lengths.max()))


class ResidentDataset(_CardDataset):
    """Samples that lie on a card as a whole.

    Parameters
    ----------
    dataset : SequenceDataset
    device : str
    values : tensor of shape (sum of lengths, n_features)
        Those of the sequences, on the card.
    """

    def __init__(self, dataset, device, values):
        super().__init__(dataset, device)
        self._values = values
        if self._block is not None:
            self._block = values.view(self._block.shape)
        starts = torch.from_numpy(self.sequences.offsets[self.rows])
        held = {"start": starts, **dataset._tensors}
        if self.ragged:
            held["lengths"] = torch.from_numpy(self.lengths)
        self._tensors = {name: t.to(self.device) for name, t in held.items()}

    def batches(self, chosen):
        """Iterate over batches; the numbers go to the card once for all of them."""
        sizes = [len(numbers) for numbers in chosen]
        numbers = _device.pin(torch.cat(tuple(chosen)))
        numbers = numbers.to(self.device, non_blocking=True)
        return map(self._gather, chosen, numbers.split(sizes))

    def batch(self, numbers):
        """As in `SequenceDataset`, on the card."""
        return next(self.batches([numbers]))

    def _gather(self, numbers, on_card):
        """The batch of samples whose numbers are known here and there."""
        inputs = {n: t.index_select(0, on_card) for n, t in self._tensors.items()}
        start, rows = inputs.pop("start"), inputs.pop("rows")
        target = inputs.pop("target")
        if self._block is not None:
            x = self._block.index_select(0, rows)
        else:
            # known to the host: it must not wait for the card to tell
            T = self._n_timesteps(self.rows[numbers.numpy()])
            x = self._pad(start, inputs.get("lengths"), T)
        return {"x": x, **inputs}, target

    def _pad(self, start, lengths, T):
        """Sequences from `start` on, (N, T, d_in), zeros after the last real step."""
        step = torch.arange(T, device=self.device)
        at = start[:, None] + step
        if lengths is None:
            return self._take(at)
        padded = step >= lengths[:, None]
        return self._take(at.masked_fill(padded, 0)).masked_fill(padded[:, :, None], 0)

    def _take(self, at):
        values = self._values.index_select(0, at.flatten())
        return values.view(*at.shape, values.shape[1])


class SentDataset(_CardDataset):
    """Samples that stay with the host and are sent to a card batch by batch."""

    def batch(self, numbers):
        """As in `SequenceDataset`, on the card."""
        inputs, target = super().batch(numbers)
        return {name: self._send(x) for name, x in inputs.items()}, self._send(target)

    def _send(self, tensor):
        return _device.pin(tensor).to(self.device, non_blocking=True)


def place(datasets, device):
    """Put data sets where a device can read them.

    Parameters
    ----------
    datasets : list of SequenceDataset or None
        None stays None. They may share their sequences.
    device : str

    Returns
    -------
    list
        For the CPU the data sets as they are. For a card they lie on it from now on if
        they take no more than a quarter of its free memory together; otherwise their
        batches are sent there.
    """
    if device == "cpu":
        return datasets
    given = [dataset for dataset in datasets if dataset is not None]
    values = {id(dataset.sequences): dataset.sequences.values for dataset in given}
    n_bytes = sum(array.nbytes for array in values.values())
    n_bytes += sum(t.nbytes for d in given for t in d._tensors.values())
    if n_bytes > SHARE_OF_FREE_MEMORY * _device.free_bytes(device):
        return [None if d is None else SentDataset(d, device) for d in datasets]
    where = _device.as_torch(device)
    values = {key: _as_tensor(array).to(where) for key, array in values.items()}
    return [
        None if d is None else ResidentDataset(d, device, values[id(d.sequences)])
        for d in datasets
    ]


def round_up(lengths):
    """The next of 1..8, 10, 12, 14, 16, 20, ...: four values an octave."""
    step = 2 ** np.maximum(np.ceil(np.log2(lengths)).astype(int) - 3, 0)
    return -(-lengths // step) * step


def _tensors(**arrays):
    return {
        name: torch.from_numpy(array)
        for name, array in arrays.items()
        if array is not None
    }


def _as_tensor(block):
    """A tensor on the memory of an array, which may be that of the user's X."""
    if block is None:
        return None
    if not block.flags.writeable:
        block = np.asarray(_Writable(block))
    return torch.from_numpy(block)


class _Writable:
    """A read-only array; torch warns of these, though here nothing writes."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {
            "data": (array.ctypes.data, False)
        }


class BatchIterator:
    """Cut a dataset into batches; nothing is collated row by row.

    Parameters
    ----------
    dataset : SequenceDataset
    batch_size : int
    generator : torch.Generator, default=None
        Shuffles the samples anew in each pass; None keeps their order.

    Notes
    -----
    In a shuffled pass sequences of unequal length meet others of about their length, so
    that little is padded: random pools of some batches are sorted by length and cut.
    The order of the batches is random again. What does not fill a batch is left over at
    random before: the last samples of a sorted pool would always be the longest ones,
    and count more than others in a batch that is smaller.

    Samples with weights are not sorted. The loss of a batch is divided by the sum of
    its weights, which would take back the weights of classes that differ in length.
    """

    def __init__(self, dataset, batch_size, generator=None):
        self.dataset = dataset
        self.batch_size = batch_size
        self.generator = generator

    def __len__(self):
        return -(-len(self.dataset) // self.batch_size)

    def __iter__(self):
        return self.dataset.batches(self._draw())

    def _draw(self):
        """The samples of each batch."""
        n = len(self.dataset)
        if self.generator is None:
            return torch.arange(n).split(self.batch_size)
        order = self._shuffle(n)
        if not self.dataset.ragged or self.dataset.weight is not None:
            return order.split(self.batch_size)
        batches = self._pool(order)
        return [batches[i] for i in self._shuffle(len(batches))]

    def _pool(self, order):
        """Batches of samples of about one length, and what is left over."""
        lengths = torch.from_numpy(self.dataset.lengths)
        n_pooled = len(order) - len(order) % self.batch_size
        pools = order[:n_pooled].split(self.batch_size * BATCHES_IN_POOL)
        batches = [
            batch
            for pool in pools
            for batch in pool[lengths[pool].argsort(stable=True)].split(self.batch_size)
        ]
        return [batch for batch in (*batches, order[n_pooled:]) if len(batch)]

    def _shuffle(self, n):
        return torch.randperm(n, generator=self.generator)
