"""The benchmark of what `fit` costs beyond a bare loop runs and reports."""

import json
from pathlib import Path

import pytest


@pytest.mark.parametrize("stub", [False, True])
def test_both_sides_are_timed(stub, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    from benchmarks.fit_overhead import Case, measure

    case = Case("minute", stub=stub, n_samples=70, T=3, d_in=2, max_epochs=1)
    row = json.loads(json.dumps(measure(case, repeats=1)))
    assert row["fit_ratio"] == pytest.approx(
        row["fit_ms"] / row["bare_fit_ms"], rel=0.1
    )
    assert case.n_batches == 2
    extra = row["fit_ms"] - row["bare_fit_ms"]
    assert row["microseconds_per_batch"] == pytest.approx(1e3 * extra / 2, abs=2)
