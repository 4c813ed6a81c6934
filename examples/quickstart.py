"""
===========
Quick start
===========

Two tasks from raw data to a pickled model: hourly bike demand 24 hours ahead, with a
grid search over the size of the net inside a Pipeline, and speakers recognised from
sequences of unequal length. Takes a few minutes on two cores.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skpararnn import LRUClassifier, ParaRNNClassifier, ParaRNNRegressor
from skpararnn.datasets import load_bike_sharing, load_japanese_vowels
from skpararnn.preprocessing import TrailingWindows

# torch's threads sleep while they wait for each other: spinning is a bit faster on an
# idle machine, and many times slower on a busy one
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# %%
# Demand 24 hours ahead
# ---------------------
# A row is an hour at which a forecast is made. It holds what is known when that hour
# ends: the demand and weather of that hour, and the calendar of the hour that is
# forecast. Tomorrow's weather is not known, so it is not there.

HORIZON = 24  # hours
TEST = slice(-8 * 7 * 24, None)  # the last 8 weeks
# the last target to learn from is the demand of the first hour of the test rows
TRAIN = slice(None, TEST.start - HORIZON + 1)


def load_demand():
    """Return what is known in each hour, and the demand 24 hours later."""
    frame = load_bike_sharing().frame
    hourly = frame.asfreq("h")
    # most hours are missing because nobody rented a bike; the weather is the last seen
    demand = hourly["cnt"].fillna(0).rename("demand")
    weather = hourly[["temp", "hum", "windspeed", "weathersit"]].ffill()
    days = frame.groupby(frame.index.normalize())[["holiday", "workingday"]].first()
    calendar = describe_hours(hourly.index + pd.Timedelta(hours=HORIZON), days)
    X = pd.concat([demand, weather, calendar.set_index(hourly.index)], axis=1)
    return X[:-HORIZON], demand.shift(-HORIZON)[:-HORIZON]


def describe_hours(hours, days):
    """Return hour of day and of week as points on circles, and the kind of day."""
    day, week = 2 * np.pi * hours.hour / 24, 2 * np.pi * hours.day_of_week / 7
    circles = {
        "day_sin": np.sin(day),
        "day_cos": np.cos(day),
        "week_sin": np.sin(week),
        "week_cos": np.cos(week),
    }
    kind = days.reindex(hours.normalize()).set_index(hours)
    return pd.DataFrame(circles, index=hours).join(kind)


# %%
# What a model has to beat: the demand of the same hour a day or a week before, and a
# ridge regression on the rows of the last day or the last week.


def naive_forecasts(X):
    """Return the demand of the same hour yesterday and last week, by name."""
    return {
        "same hour yesterday": X["demand"][TEST],
        "same hour last week": X["demand"].shift(7 * 24 - HORIZON)[TEST],
    }


def ridge_forecast(X, y, n_lags):
    """Return the forecast of a ridge on the last `n_lags` rows, all columns."""
    values = StandardScaler().fit(X[TRAIN]).transform(X)
    windows = np.lib.stride_tricks.sliding_window_view(values, n_lags, axis=0)
    lags = windows.reshape(len(windows), -1)
    ridge = Ridge().fit(lags[TRAIN], y[n_lags - 1 :][TRAIN])
    return ridge.predict(lags[TEST])


# %%
# The model is a Pipeline, so that scaling and windows are made anew in every fold. The
# gap keeps the targets of a training fold out of the time of its test fold.


GRID = {"net__d_s": [1, 2, 4], "net__K": [8, 16]}


def search_demand(X, y, grid=GRID, max_epochs=10):
    """Return a fitted grid search over the size of the net."""
    net = ParaRNNRegressor(max_epochs=max_epochs, batch_size=128, random_state=0)
    model = Pipeline(
        [
            ("scale", StandardScaler()),
            ("windows", TrailingWindows(window_size=24)),
            ("net", net),
        ]
    )
    splits = TimeSeriesSplit(3, gap=HORIZON - 1)
    # verbose=2 prints a line for each fit
    search = GridSearchCV(model, grid, cv=splits, n_jobs=2, verbose=2)
    return search.fit(X[TRAIN], y[TRAIN])


def forecast_demand(search, X):
    """Return the forecasts of the test rows."""
    context = search.best_estimator_["windows"].window_size - 1
    # with the rows before them, the windows of the first test rows are full
    return search.predict(X[TEST.start - context :])[context:]


def show_search(search):
    """Print the result of each candidate, best first."""
    table = pd.DataFrame(search.cv_results_).sort_values("rank_test_score")
    columns = ["param_net__d_s", "param_net__K", "mean_test_score", "std_test_score"]
    print(table[[*columns, "mean_fit_time"]].round(3).to_string(index=False))


def show_forecasts(forecasts, y):
    """Print the score of each forecast of the test rows."""
    for name, forecast in forecasts.items():
        r2, mae = r2_score(y[TEST], forecast), mean_absolute_error(y[TEST], forecast)
        print(f"{name:25} R2 {r2:6.3f}   mean absolute error {mae:5.1f} bikes")


# %%
# Speakers from sequences of unequal length
# -----------------------------------------
# 640 utterances of 7 to 29 steps, a list of arrays. Nothing has to be padded.


def recognise_speakers(n_seeds=5):
    """Return a fitted classifier of each kind, and test data; print accuracies."""
    X, y = load_japanese_vowels(subset="train", return_X_y=True)
    X_test, y_test = load_japanese_vowels(subset="test", return_X_y=True)
    parallel = Parallel(n_jobs=2, return_as="generator")  # one thread for each fit
    models = []
    for kind in (ParaRNNClassifier, LRUClassifier):
        scores = []
        fits = parallel(
            delayed(kind(random_state=seed).fit)(X, y) for seed in range(n_seeds)
        )
        for model in fits:
            scores.append(model.score(X_test, y_test))
            name = f"{kind.__name__}(random_state={model.random_state})"
            print(f"{name:34} accuracy {scores[-1]:.3f}", flush=True)
        print(f"mean of {n_seeds} seeds{'':22} accuracy {np.mean(scores):.4f}")
        models.append(model)
    return models, X_test


# %%
# Into another process
# --------------------

READER = """
import pickle, sys
with open(sys.argv[1], "rb") as file:
    tasks = pickle.load(file)
for model, X, expected in tasks:
    assert (model.predict(X) == expected).all()
print(f"a fresh process loaded {len(tasks)} models and predicts the same")
"""


def check_pickles(tasks):
    """Pickle (model, X, predictions) and compare them in a fresh process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "models.pickle")
        path.write_bytes(pickle.dumps(tasks))
        subprocess.run([sys.executable, "-c", READER, str(path)], check=True)


def main():
    print("Bike demand 24 hours ahead", flush=True)
    X, y = load_demand()
    search = search_demand(X, y)
    show_search(search)
    forecasts = naive_forecasts(X)
    for n_lags in (24, 168):
        forecasts[f"ridge on {n_lags} hours"] = ridge_forecast(X, y, n_lags)
    forecasts["ParaRNNRegressor"] = forecast_demand(search, X)
    show_forecasts(forecasts, y)

    print("\nSpeakers of Japanese vowels", flush=True)
    speakers, utterances = recognise_speakers()

    tasks = [(search.best_estimator_, X[TEST], search.predict(X[TEST]))]
    tasks += [(model, utterances, model.predict(utterances)) for model in speakers]
    check_pickles(tasks)


if __name__ == "__main__":
    main()
