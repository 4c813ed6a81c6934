"""
===========
Quick start
===========

Hourly bike demand, 24 hours ahead.
"""

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.preprocessing import StandardScaler

from skpararnn.datasets import load_bike_sharing

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


def main():
    X, y = load_demand()
    forecasts = naive_forecasts(X)
    for n_lags in (24, 168):
        forecasts[f"ridge on {n_lags} hours"] = ridge_forecast(X, y, n_lags)
    for name, forecast in forecasts.items():
        r2, mae = r2_score(y[TEST], forecast), mean_absolute_error(y[TEST], forecast)
        print(f"{name:25} R2 {r2:6.3f}   mean absolute error {mae:5.1f} bikes")


if __name__ == "__main__":
    main()
