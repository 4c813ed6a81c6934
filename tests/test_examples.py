"""The examples run and show what they say."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def quickstart():
    return runpy.run_path(str(EXAMPLES / "quickstart.py"))


def test_demand_is_aligned_and_knows_nothing_of_the_future(quickstart):
    X, y = quickstart["load_demand"]()
    assert X.index.equals(y.index)
    hour = X.index[5000]
    assert y[hour] == X["demand"][hour + np.timedelta64(24, "h")]
    gaps = X.index.to_series().diff().dropna()
    assert (gaps == np.timedelta64(1, "h")).all()
    assert not X.isna().any(axis=None)
    assert not y.isna().any()
    # the last target to learn from lies before the first hour of the test weeks
    train, test = X.index[quickstart["TRAIN"]], X.index[quickstart["TEST"]]
    assert train[-1] + np.timedelta64(24, "h") <= test[0]
    assert len(test) == 8 * 7 * 24


def test_a_small_net_beats_the_naive_forecasts(quickstart):
    X, y = quickstart["load_demand"]()
    search = quickstart["search_demand"](
        X.iloc[-9000:],
        y.iloc[-9000:],
        grid={"net__d_s": [2], "net__K": [8]},
        max_epochs=4,
    )
    test = quickstart["TEST"]
    forecast = quickstart["forecast_demand"](search, X)
    error = mean_absolute_error(y[test], forecast)
    for naive in quickstart["naive_forecasts"](X).values():
        assert error < mean_absolute_error(y[test], naive)


@pytest.mark.slow
def test_the_quick_start_runs_as_a_whole(tmp_path):
    script = EXAMPLES / "quickstart.py"
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "error::FutureWarning"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a fresh process loaded 3 models and predicts the same" in run.stdout
    assert not list(tmp_path.iterdir())
