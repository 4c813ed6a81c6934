"""The data sets shipped with the package; their terms stand in `data/README.rst`."""

import numpy as np

from ..utils._parameters import any_of, check_parameters, choice, integer, none
from ._files import describe, read_columns, read_ts, to_frame

# name in `subset` -> files, in the order in which their utterances are returned
_JAPANESE_VOWELS = {
    "train": ["japanese_vowels_train.ts.gz"],
    "test": ["japanese_vowels_test.ts.gz"],
    "all": ["japanese_vowels_train.ts.gz", "japanese_vowels_test.ts.gz"],
}


def load_japanese_vowels(*, subset="train", return_X_y=False):
    """Load the Japanese vowels: who is speaking? (classification, ragged).

    640 utterances by nine speakers, each a sequence of 7 to 29 steps with 12 LPC
    cepstrum coefficients.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The part to load, as its authors split it: 270 utterances to train on, 370 to
        test on; "all" is the first followed by the second.
    return_X_y : bool, default=False
        Return `(data, target)` in place of the Bunch.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        * data: list of float64 arrays `(n_timesteps_i, 12)`
        * target: array `(n_samples,)` of strings, the speakers "1" to "9"
        * feature_names, target_names: list of str
        * DESCR: str, how it was recorded, origin, licence and citation

    Raises
    ------
    ValueError
        If `subset` is not one of the three names.

    Examples
    --------
    >>> from skpararnn.datasets import load_japanese_vowels
    >>> X, y = load_japanese_vowels(subset="train", return_X_y=True)
    >>> len(X), X[0].shape, str(y[0])
    (270, (20, 12), '1')
    """
    from sklearn.utils import Bunch

    check_parameters({"subset": choice(*_JAPANESE_VOWELS)}, {"subset": subset})
    cases = [case for name in _JAPANESE_VOWELS[subset] for case in read_ts(name)]
    data = [values for values, _ in cases]
    target = np.array([label for _, label in cases])
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=[f"lpc_cepstrum_{i}" for i in range(1, 13)],
        target_names=[str(i) for i in range(1, 10)],
        DESCR=describe("japanese_vowels"),
    )


def load_bike_sharing(*, return_X_y=False):
    """Load hourly bike rentals with weather and calendar (regression, gaps).

    17,379 hours of 2011 and 2012 in Washington, D.C.

    Parameters
    ----------
    return_X_y : bool, default=False
        Return `(data, target)` in place of the Bunch.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        * data: DataFrame `(17379, 12)`, calendar and weather of the hour
        * target: Series `(17379,)`, bikes rented in that hour (`cnt`)
        * frame: DataFrame `(17379, 15)`, data, `casual`, `registered` and `cnt`
        * feature_names: list of str
        * DESCR: str, every column with its unit, origin, licence and citation

        All are indexed by time, the start of the hour.

    Notes
    -----
    165 hours are missing, most of them probably because nobody rented a bike: `DESCR`
    gives the reasons. They stay gaps here. `frame.asfreq("h")` turns them into rows of
    NaN, to be filled before windows are cut that count in hours.

    `casual + registered = cnt`, so these two columns tell the target and are not among
    the features.

    The weather is that of the hour itself. A forecast made a day ahead does not know
    it; shift it, or leave it out.

    Weather columns keep the scale of the source: degrees Celsius are `47 temp - 8` and
    `66 atemp - 16`, per cent are `100 hum`, km/h are `67 windspeed`.

    Examples
    --------
    >>> from skpararnn.datasets import load_bike_sharing
    >>> frame = load_bike_sharing().frame
    >>> len(frame), len(frame.asfreq("h"))
    (17379, 17544)
    """
    import pandas as pd
    from sklearn.utils import Bunch

    columns = read_columns("bike_sharing_hour.csv.gz")
    del columns["instant"]
    day = pd.to_datetime(columns.pop("dteday"))
    frame = to_frame(columns)
    time = day + pd.to_timedelta(frame["hr"].to_numpy(), unit="h")
    frame = frame.set_index(time.rename("time"))
    data = frame.drop(columns=["casual", "registered", "cnt"])
    target = frame["cnt"].copy()
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(data),
        DESCR=describe("bike_sharing_hour"),
    )


def load_cmapss_fd001(*, rul_cap=125, as_sequences=False, return_X_y=False):
    """Load 100 engines run to failure: cycles left? (regression, ragged).

    The training part of C-MAPSS FD001: 20,631 cycles of simulated turbofan engines,
    128 to 362 an engine.

    Parameters
    ----------
    rul_cap : int or None, default=125
        Largest remaining useful life. A healthy engine shows no sign of how long it
        will last, so the literature cuts the target off, often at 125 cycles; scores
        compare only at the same cap. None keeps the plain number of cycles left.
    as_sequences : bool, default=False
        Return data and target as lists with one array an engine, in the order of
        `unit`, in place of one row a cycle. An engine then is one sample and any split
        keeps it whole; with rows, split by `frame["unit"]`.
    return_X_y : bool, default=False
        Return `(data, target)` in place of the Bunch.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        * data: DataFrame `(20631, 24)` of float64, 3 settings and 21 sensors, or list
          of 100 arrays `(n_cycles_i, 24)`
        * target: Series `(20631,)` of int64, cycles left after this one, or list of
          100 arrays `(n_cycles_i,)`
        * frame: DataFrame `(20631, 27)`, `unit`, `cycle`, data and `rul`
        * feature_names: list of str
        * DESCR: str, every sensor with its unit, origin, licence and citation

    Raises
    ------
    ValueError
        If `rul_cap` is neither None nor a positive integer.

    Notes
    -----
    Seven of the 24 features never change in FD001 and one takes two values. `cycle` is
    not among the features: add it if the age of an engine is known where the model
    will be used.

    Examples
    --------
    >>> from skpararnn.datasets import load_cmapss_fd001
    >>> X, y = load_cmapss_fd001(as_sequences=True, return_X_y=True)
    >>> len(X), X[0].shape, y[0][:2], y[0][-2:]
    (100, (192, 24), array([125, 125]), array([1, 0]))
    """
    from sklearn.utils import Bunch

    check_parameters({"rul_cap": any_of(none(), integer(1))}, {"rul_cap": rul_cap})
    frame = to_frame(read_columns("cmapss_fd001_train.csv.gz"))
    features = list(frame.columns[2:])
    frame = frame.astype(dict.fromkeys(features, "float64"))
    last_cycle = frame.groupby("unit")["cycle"].transform("max")
    frame["rul"] = (last_cycle - frame["cycle"]).clip(upper=rul_cap)
    data, target = frame[features].copy(), frame["rul"].copy()
    if as_sequences:
        data, target = (_split_units(part, frame["unit"]) for part in (data, target))
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=features,
        DESCR=describe("cmapss_fd001_train"),
    )


def load_air_quality():
    """Load a year of hourly gas sensor readings with missing values.

    9,357 hours in a row, March 2004 to April 2005, beside a road in an Italian city:
    five sensors, the certified analyser next to them, temperature and humidity.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        * frame: DataFrame `(9357, 13)` of float64, indexed by time; a missing value is
          NaN (the source writes -200)
        * feature_names: list of str
        * DESCR: str, every column with its unit, origin, licence and citation

    Notes
    -----
    No column is the target by itself, so there is no `return_X_y`: the sensors were
    put there to predict the analyser (the columns ending in `(GT)`), the forecasting
    literature predicts absolute humidity, `AH`, the last column. Copies that circulate
    there call it "OT".

    Every column has at least 366 missing values, in the same hours for most of them;
    `NMHC(GT)` has 8,443 and is best left out.

    Examples
    --------
    >>> from skpararnn.datasets import load_air_quality
    >>> frame = load_air_quality().frame
    >>> frame.shape, int(frame["AH"].isna().sum())
    ((9357, 13), 366)
    """
    import pandas as pd
    from sklearn.utils import Bunch

    columns = read_columns("air_quality_uci.csv.gz")
    time = pd.to_datetime(columns.pop("date"), format="%Y/%m/%d %H:%M")
    frame = to_frame(columns).astype("float64").rename(columns={"OT": "AH"})
    frame = frame.mask(frame == -200).set_index(time.rename("time"))
    return Bunch(
        frame=frame,
        feature_names=list(frame),
        DESCR=describe("air_quality_uci"),
    )


def _split_units(rows, units):
    return [np.array(part, order="C") for _, part in rows.groupby(units)]
