"""Many fits, many lengths, long sequences: nothing grows, nothing hangs."""

import gc
import os
import pickle
import time

import numpy as np
import pytest
from cases import CELLS, ESTIMATORS, answers, sequences, small, target

pytestmark = pytest.mark.slow


def resident_megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


on_linux = pytest.mark.skipif(
    not os.path.exists("/proc/self/statm"), reason="reads memory from /proc"
)


@on_linux
@pytest.mark.parametrize("cls", ESTIMATORS)
def test_memory_stays_over_200_fits(cls):
    X = sequences()
    y = target(cls, X)
    for _ in range(20):
        small(cls).fit(X, y)
    gc.collect()
    before = resident_megabytes()
    for _ in range(200):
        pickle.loads(pickle.dumps(small(cls).fit(X, y))).predict(X)
    gc.collect()
    assert resident_megabytes() - before < 20


@on_linux
def test_memory_stays_over_1000_new_lengths():
    X = sequences(T=40)
    model = small(ESTIMATORS[0]).fit(X, target(ESTIMATORS[0], X))
    longest = np.random.default_rng(0).normal(size=(1100, 2))
    model.predict([longest])
    gc.collect()
    before = resident_megabytes()
    for length in range(1, 1001):
        model.predict([longest[:length]])
    gc.collect()
    assert resident_megabytes() - before < 20


@pytest.mark.parametrize(("cls", "options"), CELLS)
def test_long_sequences_and_odd_widths(cls, options):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 2)) for length in (20000, 17, 8000, 1)]
    start = time.monotonic()
    model = small(cls, K=257, max_epochs=1, batch_size=4, **options)
    model.fit(X, target(cls, X))
    assert np.isfinite(answers(model, X)).all()
    assert time.monotonic() - start < 300  # a generous limit that catches a hang


@pytest.mark.parametrize(("cls", "options"), CELLS)
def test_rows_are_answered_alone_as_in_company_at_many_lengths(cls, options):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 3)) for length in rng.integers(1, 300, 400)]
    model = small(cls, K=8, max_epochs=1, **options).fit(X, target(cls, X))
    together = answers(model, X)
    for i in range(0, 400, 7):
        np.testing.assert_array_equal(answers(model, [X[i]])[0], together[i])
