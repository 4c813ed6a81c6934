"""How samples become batches, in training and in prediction."""

import numpy as np
import pytest
import torch
from cases import small
from numpy.testing import assert_array_equal

from skpararnn import ParaRNNClassifier
from skpararnn.estimators._data import BatchIterator, SequenceDataset
from skpararnn.estimators._inference import _rows_at_once
from skpararnn.utils._sequences import check_sequences

B = 16


def dataset(lengths, weight=None):
    """Samples whose values and targets are their number, except for the zeros."""
    X = [np.full((length, 2), i, np.float32) for i, length in enumerate(lengths)]
    return SequenceDataset(check_sequences(X), np.arange(len(lengths)), weight)


def passes(data, n=1, seed=0, batch_size=B):
    """The sample numbers of each batch, of n passes with one generator."""
    generator = torch.Generator().manual_seed(seed)
    iterator = BatchIterator(data, batch_size, generator)
    found = [[target.numpy() for _, target in iterator] for _ in range(n)]
    return found if n > 1 else found[0]


def mixed(n=500, seed=0):
    return np.random.default_rng(seed).integers(1, 100, n)


def padded_share(lengths, batches):
    """Padded steps over real ones."""
    steps = sum(len(rows) * lengths[rows].max() for rows in batches)
    return steps / lengths.sum() - 1


# ------------------------------------------------------------------- order of a pass


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 128, 129, 500])
@pytest.mark.parametrize("lengths", ["equal", "mixed"])
def test_every_sample_comes_once_and_one_batch_may_be_short(n, lengths):
    data = dataset(np.full(n, 3) if lengths == "equal" else mixed(n))
    batches = passes(data)
    assert sorted(np.concatenate(batches)) == list(range(n))
    sizes = sorted(map(len, batches), reverse=True)
    assert sizes == [B] * (n // B) + [n % B] * (n % B > 0)
    assert len(batches) == len(BatchIterator(data, B))


def test_sequences_of_one_length_share_a_batch():
    lengths = mixed()
    data = dataset(lengths)
    assert padded_share(lengths, passes(data)) < 0.15
    by_chance = torch.randperm(500, generator=torch.Generator()).split(B)
    assert padded_share(lengths, [rows.numpy() for rows in by_chance]) > 0.7


def test_short_batches_come_as_early_as_long_ones():
    lengths = mixed()
    ends = [
        np.corrcoef(np.arange(len(batches)), [lengths[b].max() for b in batches])[0, 1]
        for batches in passes(dataset(lengths), n=40)
    ]
    assert abs(np.mean(ends)) < 0.15


def test_what_is_left_over_is_any_sample():
    lengths = np.sort(mixed(B + 5))
    left_over = [
        lengths[rows].mean()
        for batches in passes(dataset(lengths), n=200)
        for rows in batches
        if len(rows) == 5
    ]
    assert len(left_over) == 200
    assert abs(np.mean(left_over) - lengths.mean()) < 0.1 * lengths.mean()


def test_samples_meet_others_in_the_next_pass():
    first, second = passes(dataset(mixed()), n=2)
    together = {frozenset(rows) for rows in map(tuple, first)}
    assert not together & {frozenset(rows) for rows in map(tuple, second)}


@pytest.mark.parametrize("lengths", [np.full(100, 3), mixed(100)])
def test_the_seed_decides_the_order(lengths):
    data = dataset(lengths)
    one, same, other = (passes(data, seed=seed) for seed in (0, 0, 1))
    assert_array_equal(np.concatenate(one), np.concatenate(same))
    assert (np.concatenate(one) != np.concatenate(other)).any()


def test_weights_keep_sequences_of_all_lengths_together():
    """A batch divides by the sum of its weights: see the notes of BatchIterator."""
    lengths = np.where(np.arange(400) < 200, 5, 50)
    weight = np.where(lengths == 5, 3.0, 1.0)
    shares = [(lengths[b] == 5).mean() for b in passes(dataset(lengths, weight))]
    assert 0.1 < min(shares) < max(shares) < 0.9


@pytest.mark.parametrize("lengths", [np.full(100, 3), mixed(100)])
def test_no_generator_keeps_the_order(lengths):
    batches = [target.numpy() for _, target in BatchIterator(dataset(lengths), B)]
    assert_array_equal(np.concatenate(batches), np.arange(100))
    assert [len(b) for b in batches] == [16] * 6 + [4]


# ------------------------------------------------------------------- what batches hold


@pytest.mark.parametrize("lengths", [np.full(40, 3), mixed(40)])
@pytest.mark.parametrize("rows", [None, [3, 1, 7, 20, 39]])
def test_batches_hold_sequences_targets_and_weights_of_their_samples(lengths, rows):
    data = dataset(lengths, weight=np.arange(40.0))
    numbers = np.array(rows or range(40))
    for inputs, target in BatchIterator(data.take(numbers), 4):
        target = target.numpy()
        assert_array_equal(inputs["weight"], target)
        T = inputs["x"].shape[1]
        real = np.arange(T) < lengths[target][:, None]
        expected = np.where(real, target[:, None], 0)
        for feature in inputs["x"].unbind(2):
            assert_array_equal(feature, expected)
        if data.ragged:
            assert_array_equal(inputs["lengths"], lengths[target])
        assert ("lengths" in inputs) == data.ragged
    assert len(data.take(numbers)) == len(numbers)
    (one, target) = data[2]
    assert (one["x"].shape[0], target.tolist()) == (1, [2])


def test_samples_of_one_length_among_others_need_no_lengths():
    data = dataset([3, 5, 3, 3]).take(np.array([0, 2, 3]))
    inputs, _ = data.batch(torch.arange(3))
    assert inputs.keys() == {"x"}
    assert inputs["x"].shape == (3, 3, 2)


@pytest.mark.parametrize("writeable", [True, False])
def test_values_are_shared_but_batches_are_copies(writeable):
    X = np.zeros((8, 3, 2), np.float32)
    X.flags.writeable = writeable
    data = SequenceDataset(check_sequences(X), np.arange(8))
    assert data._block.data_ptr() == X.ctypes.data
    assert data.take(np.arange(3))._block.data_ptr() == X.ctypes.data
    for generator in (None, torch.Generator()):
        for inputs, _ in BatchIterator(data, 4, generator):
            inputs["x"].fill_(1.0)
    assert not X.any()


# ------------------------------------------------------------------------- predictions


@pytest.mark.parametrize("T", [1, 3, 50, 70])
@pytest.mark.parametrize("d_in", [2, 40])  # narrow inputs are projected in the kernel
@pytest.mark.parametrize("method", ["predict_proba", "hidden_states"])
def test_answers_do_not_depend_on_the_number_of_rows(T, d_in, method):
    X = np.random.default_rng(0).normal(size=(1100, T, d_in))
    model = small(ParaRNNClassifier, n_layers=2).fit(X[:20], X[:20, -1, 0] > 0)
    answer = getattr(model, method)
    together = answer(X)
    for rows in (slice(0, 1), slice(1099, 1100), slice(100, 700), slice(0, 1099)):
        assert_array_equal(answer(X[rows]), together[rows])
    assert_array_equal(answer(list(X[:3])), together[:3])


@pytest.mark.parametrize("T", [1, 9, 64, 65, 300, 5000, 20000])
def test_batches_of_a_prediction_are_bounded(T):
    n_rows = _rows_at_once(T)
    assert n_rows * T <= 2**19
    assert n_rows % 32 == 0 or n_rows == 1


def test_states_of_ragged_rows_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 2)) for length in rng.integers(1, 70, 90)]
    model = small(ParaRNNClassifier).fit(X, np.arange(90) % 2)
    for x, states in zip(X, model.hidden_states(X), strict=True):
        assert_array_equal(model.hidden_states([x])[0], states)
