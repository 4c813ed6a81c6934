"""The bundled files are their sources to the last digit, and are read as such."""

import gzip
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import skpararnn.datasets
from skpararnn.datasets import (
    load_air_quality,
    load_bike_sharing,
    load_cmapss_fd001,
    load_japanese_vowels,
)

DATA = Path(skpararnn.datasets.__file__).parent / "data"
FILES = sorted(path.name for path in DATA.iterdir() if path.suffix != ".rst")
LOADERS = (
    load_air_quality,
    load_bike_sharing,
    load_cmapss_fd001,
    load_japanese_vowels,
)


# bundled file -> first half of the SHA-256 of the source file
SOURCES = {
    "air_quality_uci.csv.gz": "afd1ec842510eff1335b333bffbaeb7b",
    "bike_sharing_hour.csv.gz": "e03de4ee4ef4dc376ac6e04bf829673c",
    "cmapss_fd001_train.csv.gz": "963b5e22825b34d8b21c69e1aeb4af3e",
    "japanese_vowels_test.ts.gz": "b3d41d6a0ca3bcad3afb9ca7d4365382",
    "japanese_vowels_train.ts.gz": "68a430eabd919cc77f40b1f5f3bc0dca",
}


def decompressed(filename):
    return gzip.decompress((DATA / filename).read_bytes()).decode()


def spelling(filename):
    """Text of a transposed table: {column name: values}."""
    lines = decompressed(filename).splitlines()
    return {name: values for name, *values in (line.split(",") for line in lines)}


# -- the files -------------------------------------------------------------------------


def written_back(filename):
    """The source file of a bundled one."""
    if filename.endswith(".ts.gz"):
        return decompressed(filename)
    columns = spelling(filename)
    rows = list(zip(*columns.values(), strict=True))
    if filename.startswith("cmapss"):
        return "".join(" ".join(row) + "  \n" for row in rows)
    return "".join(",".join(row) + "\r\n" for row in [tuple(columns), *rows])


def test_every_file_has_a_known_source():
    assert list(SOURCES) == FILES


@pytest.mark.parametrize("filename", SOURCES)
def test_file_holds_its_source_to_the_last_byte(filename):
    digest = hashlib.sha256(written_back(filename).encode()).hexdigest()
    assert digest[:32] == SOURCES[filename]


@pytest.mark.parametrize("filename", FILES)
def test_file_is_listed_with_a_page_that_names_origin_licence_and_citation(filename):
    listing = (DATA / "README.rst").read_text(encoding="utf-8").splitlines()
    (row,) = [line.split() for line in listing if line.startswith(filename)]
    page = (DATA / row[1]).read_text(encoding="utf-8")
    for heading in ("Origin:", "Licence:", "Cite:"):
        assert heading in page


def test_files_stay_small():
    assert sum(path.stat().st_size for path in DATA.iterdir()) < 1.5e6


@pytest.mark.parametrize("load", LOADERS)
def test_description_comes_with_the_data(load):
    assert "Licence:" in load().DESCR


def test_importing_the_datasets_loads_neither_pandas_nor_scikit_learn():
    code = (
        "import sys, skpararnn.datasets; print({'pandas', 'sklearn'} & {*sys.modules})"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == "set()"


# -- Japanese vowels -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subset", "longest", "per_speaker"),
    [
        ("train", 26, [30] * 9),
        ("test", 29, [31, 35, 88, 44, 29, 24, 40, 50, 29]),
        ("all", 29, [61, 65, 118, 74, 59, 54, 70, 80, 59]),
    ],
)
def test_vowels_have_the_published_sizes(subset, longest, per_speaker):
    bunch = load_japanese_vowels(subset=subset)
    lengths = [len(values) for values in bunch.data]
    speakers, counts = np.unique(bunch.target, return_counts=True)
    assert (min(lengths), max(lengths)) == (7, longest)
    assert list(speakers) == bunch.target_names == list("123456789")
    assert list(counts) == per_speaker
    for values in bunch.data:
        assert values.dtype == np.float64
        assert values.shape[1] == len(bunch.feature_names) == 12
        assert np.isfinite(values).all()


def test_vowels_have_time_along_rows():
    X, y = load_japanese_vowels(return_X_y=True)
    assert y[0] == "1"
    np.testing.assert_array_equal(X[0][:3, 0], [1.860936, 1.891651, 1.939205])
    np.testing.assert_array_equal(X[0][:3, 1], [-0.207383, -0.193249, -0.239664])


def test_all_vowels_are_those_to_train_on_then_those_to_test_on():
    parts = [load_japanese_vowels(subset=name) for name in ("train", "test")]
    X, y = load_japanese_vowels(subset="all", return_X_y=True)
    np.testing.assert_array_equal(y, np.concatenate([part.target for part in parts]))
    for together, alone in zip(X, parts[0].data + parts[1].data, strict=True):
        np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("subset", ["validation", None, ["train"]])
def test_unknown_subset_is_refused(subset):
    with pytest.raises(ValueError, match="subset must be one of 'train', 'test'"):
        load_japanese_vowels(subset=subset)


# -- bike sharing ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def bikes():
    return load_bike_sharing()


def test_bikes_have_the_published_sizes(bikes):
    assert bikes.frame.shape == (17379, 15)
    assert bikes.data.shape == (17379, 12)
    assert list(bikes.data) == bikes.feature_names
    assert bikes.target.sum() == 3292679


def test_bike_numbers_are_the_nearest_floats(bikes):
    columns = spelling("bike_sharing_hour.csv.gz")
    for name in bikes.frame:
        np.testing.assert_array_equal(bikes.frame[name], np.array(columns[name], float))


def test_bike_dtypes(bikes):
    floats = bikes.frame.columns[bikes.frame.dtypes == "float64"]
    assert list(floats) == ["temp", "atemp", "hum", "windspeed"]
    assert (bikes.frame.drop(columns=floats).dtypes == "int64").all()


def test_bike_index_is_the_hour(bikes):
    time = bikes.frame.index
    assert isinstance(time, pd.DatetimeIndex)
    assert time.is_monotonic_increasing
    assert time.is_unique
    assert time[0] == pd.Timestamp("2011-01-01 00:00")
    assert time[-1] == pd.Timestamp("2012-12-31 23:00")
    assert (time.hour == bikes.frame["hr"]).all()
    assert (time.month == bikes.frame["mnth"]).all()


def test_bike_gaps_are_the_documented_ones(bikes):
    gaps = bikes.frame.asfreq("h")["cnt"].isna()
    assert gaps.sum() == 165
    assert gaps["2012-10-29 01:00":"2012-10-30 12:00"].all()
    assert bikes.target.min() == 1


def test_bike_features_do_not_hold_the_target(bikes):
    frame = bikes.frame
    assert (frame["casual"] + frame["registered"] == frame["cnt"]).all()
    assert not {"casual", "registered", "cnt"} & set(bikes.data)
    pd.testing.assert_series_equal(bikes.target, frame["cnt"])


def test_bike_scales_are_the_documented_ones(bikes):
    for whole in (66 * bikes.data["atemp"] - 16, 67 * bikes.data["windspeed"]):
        assert np.abs(whole - whole.round()).max() < 0.005


def test_bikes_as_a_pair(bikes):
    X, y = load_bike_sharing(return_X_y=True)
    pd.testing.assert_frame_equal(X, bikes.data)
    pd.testing.assert_series_equal(y, bikes.target)


# -- C-MAPSS ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def engines():
    return load_cmapss_fd001()


def test_engines_have_the_published_sizes(engines):
    assert engines.frame.shape == (20631, 27)
    cycles = engines.frame.groupby("unit")["cycle"]
    assert list(cycles.groups) == list(range(1, 101))
    assert (cycles.min() == 1).all()
    assert (cycles.max() == cycles.size()).all()
    assert (cycles.size().min(), cycles.size().max()) == (128, 362)


def test_engine_numbers_are_the_nearest_floats(engines):
    for name, values in spelling("cmapss_fd001_train.csv.gz").items():
        np.testing.assert_array_equal(engines.frame[name], np.array(values, float))


def test_engine_features_are_settings_and_sensors(engines):
    names = [f"setting_{i}" for i in range(1, 4)]
    names += [f"sensor_{i}" for i in range(1, 22)]
    assert list(engines.data) == engines.feature_names == names
    assert (engines.data.dtypes == "float64").all()
    constant = engines.data.columns[engines.data.nunique() == 1]
    assert list(constant) == [
        "setting_3",
        *(f"sensor_{i}" for i in (1, 5, 10, 16, 18, 19)),
    ]


def test_cycles_left_count_down_from_the_cap_to_zero(engines):
    first = engines.frame["unit"] == 1
    expected = [*[125] * (192 - 125), *range(124, -1, -1)]
    assert list(engines.target[first]) == expected
    pd.testing.assert_series_equal(engines.target, engines.frame["rul"])


@pytest.mark.parametrize(("cap", "largest"), [(None, 361), (1000, 361), (30, 30)])
def test_cap_of_cycles_left(cap, largest):
    frame = load_cmapss_fd001(rul_cap=cap).frame
    assert frame["rul"].max() == largest
    assert (frame.groupby("unit")["rul"].min() == 0).all()


@pytest.mark.parametrize("cap", [0, -5, 12.5, "125", True])
def test_a_cap_that_is_no_positive_integer_is_refused(cap):
    with pytest.raises(ValueError, match="rul_cap must be None or an integer"):
        load_cmapss_fd001(rul_cap=cap)


def test_engines_as_sequences_are_the_rows_of_each_unit(engines):
    X, y = load_cmapss_fd001(as_sequences=True, return_X_y=True)
    assert len(X) == len(y) == 100
    for unit, (data, rul) in enumerate(zip(X, y, strict=True), start=1):
        rows = engines.frame["unit"] == unit
        np.testing.assert_array_equal(data, engines.data[rows])
        np.testing.assert_array_equal(rul, engines.target[rows])
        assert data.dtype == np.float64
        assert data.flags.c_contiguous
        assert data.flags.writeable


# -- air quality -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def air():
    return load_air_quality()


def test_air_numbers_are_the_nearest_floats_or_missing(air):
    columns = spelling("air_quality_uci.csv.gz")
    columns["AH"] = columns.pop("OT")
    assert air.frame.shape == (9357, 13)
    assert list(air.frame) == air.feature_names
    assert (air.frame.dtypes == "float64").all()
    for name in air.frame:
        expected = np.array(columns[name], float)
        np.testing.assert_array_equal(air.frame[name].fillna(-200), expected)


def test_air_misses_what_its_page_says(air):
    missing = dict.fromkeys(air.frame, 366)
    missing |= {"CO(GT)": 1683, "NMHC(GT)": 8443, "NOx(GT)": 1639, "NO2(GT)": 1642}
    assert air.frame.isna().sum().to_dict() == missing
    assert (air.frame.min() > -200).all()
    for name, count in missing.items():
        (row,) = [
            line for line in air.DESCR.splitlines() if line.startswith(f"{name} ")
        ]
        assert row.endswith(f" {count:,}")


def test_air_index_runs_hour_by_hour(air):
    expected = pd.date_range("2004-03-10 18:00", "2005-04-04 14:00", freq="h")
    assert (air.frame.index == expected).all()


def test_absolute_humidity_is_the_last_column(air):
    assert air.feature_names[-1] == "AH"
    assert air.frame["AH"].iloc[0] == 0.7578
