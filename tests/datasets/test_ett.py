"""The checked download, against a tiny file and without a network."""

import gzip
import hashlib
import io
import urllib.request
from http.client import IncompleteRead
from urllib.error import URLError

import numpy as np
import pandas as pd
import pytest

from skpararnn.datasets import _ett, fetch_ett

CONTENT = b"""date,HUFL,HULL,MUFL,MULL,LUFL,LULL,OT
2016-07-01 00:00:00,5.827000141143799,2.0,1.5,0.4,4.2,1.3,30.5310001373291
2016-07-01 01:00:00,5.692999839782715,2.1,1.4,0.3,4.1,1.4,27.78700065612793
"""


@pytest.fixture(autouse=True)
def tiny_original(monkeypatch):
    digest = hashlib.sha256(CONTENT).hexdigest()
    monkeypatch.setattr(_ett, "_SHA256", dict.fromkeys(("ETTh1", "ETTm1"), digest))


@pytest.fixture
def network(monkeypatch):
    """Answers of the network in turn, and the addresses that were asked for."""

    class Network:
        def __init__(self):
            self.asked, self.answers = [], []

        def urlopen(self, url, timeout):
            self.asked.append(url)
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return io.BytesIO(answer)

    network = Network()
    monkeypatch.setattr(urllib.request, "urlopen", network.urlopen)
    return network


def names_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


# -- what is returned ------------------------------------------------------------------


@pytest.mark.parametrize("compressed", [False, True])
def test_local_copy_is_read_without_a_network(compressed, tmp_path, network):
    path = tmp_path / ("ETTh1.csv.gz" if compressed else "ETTh1.csv")
    path.write_bytes(gzip.compress(CONTENT) if compressed else CONTENT)

    bunch = fetch_ett("ETTh1", tmp_path)

    assert network.asked == []
    assert bunch.filename == str(path)
    assert names_in(tmp_path) == [path.name]
    assert bunch.feature_names == list(bunch.frame)
    assert bunch.feature_names == ["HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT"]
    assert (bunch.frame.dtypes == "float64").all()
    assert list(bunch.frame.index) == list(
        pd.to_datetime(["2016-07-01 00:00", "2016-07-01 01:00"])
    )
    np.testing.assert_array_equal(
        bunch.frame["OT"], [30.5310001373291, 27.78700065612793]
    )
    assert "Licence: CC BY-ND 4.0" in bunch.DESCR


def test_known_checksums_are_those_of_the_originals(monkeypatch):
    monkeypatch.undo()
    assert {name: digest[:16] for name, digest in _ett._SHA256.items()} == {
        "ETTh1": "f18de3ad269cef59",
        "ETTm1": "6ce1759b1a18e332",
    }


# -- download --------------------------------------------------------------------------


def test_missing_file_is_downloaded_once_and_kept_as_it_is(tmp_path, network):
    network.answers = [CONTENT]
    home = tmp_path / "not" / "there"

    first, second = (fetch_ett("ETTm1", str(home)) for _ in range(2))

    (url,) = network.asked
    assert url.startswith("https://")
    assert url.endswith("/ETT-small/ETTm1.csv")
    assert names_in(home) == ["ETTm1.csv"]
    assert (home / "ETTm1.csv").read_bytes() == CONTENT
    pd.testing.assert_frame_equal(first.frame, second.frame)


def test_wrong_download_is_refused_and_leaves_nothing(tmp_path, network):
    network.answers = [b"<html>moved</html>"]
    with pytest.raises(ValueError, match="is not the original ETTh1") as error:
        fetch_ett("ETTh1", tmp_path)
    message = str(error.value)
    assert network.asked[0] in message
    assert hashlib.sha256(CONTENT).hexdigest() in message
    assert hashlib.sha256(b"<html>moved</html>").hexdigest() in message
    assert f"save the original as {tmp_path / 'ETTh1.csv'}" in message
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    "failure",
    [URLError("no route"), TimeoutError("slow"), IncompleteRead(b"")],
    ids=lambda failure: type(failure).__name__,
)
def test_no_network_says_where_a_copy_may_lie(failure, tmp_path, network):
    network.answers = [failure]
    with pytest.raises(OSError, match="Cannot download https://") as error:
        fetch_ett("ETTh1", tmp_path)
    for part in (str(tmp_path / "ETTh1.csv"), "data_home", "SKPARARNN_DATA"):
        assert part in str(error.value)
    assert names_in(tmp_path) == []


def test_failed_writing_leaves_no_part_of_a_file(tmp_path, network, monkeypatch):
    def fail(source, target):
        raise OSError("disk full")

    network.answers = [CONTENT]
    monkeypatch.setattr(_ett.os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        fetch_ett("ETTh1", tmp_path)
    assert names_in(tmp_path) == []


# -- local copies that are not the original --------------------------------------------


def test_changed_copy_is_refused_not_replaced(tmp_path, network):
    path = tmp_path / "ETTh1.csv"
    path.write_bytes(CONTENT.replace(b"5.8", b"5.9"))
    with pytest.raises(ValueError, match=r"expected SHA-256 .* found") as error:
        fetch_ett("ETTh1", tmp_path)
    assert str(path) in str(error.value)
    assert "Delete it" in str(error.value)
    assert network.asked == []
    assert path.exists()


@pytest.mark.parametrize("content", [b"text", gzip.compress(CONTENT)[:-20]])
def test_broken_gzip_copy_is_named(content, tmp_path):
    (tmp_path / "ETTh1.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"ETTh1\.csv\.gz is not a whole gzip file"):
        fetch_ett("ETTh1", tmp_path)


# -- where copies lie ------------------------------------------------------------------


def test_folder_of_the_environment_is_used(tmp_path, monkeypatch):
    (tmp_path / "ETTh1.csv").write_bytes(CONTENT)
    monkeypatch.setenv("SKPARARNN_DATA", str(tmp_path))
    assert fetch_ett("ETTh1").filename == str(tmp_path / "ETTh1.csv")


@pytest.mark.parametrize("value", [None, ""])
def test_folder_in_the_home_folder_is_the_default(value, tmp_path, monkeypatch):
    for home in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(home, str(tmp_path))
    if value is None:
        monkeypatch.delenv("SKPARARNN_DATA", raising=False)
    else:
        monkeypatch.setenv("SKPARARNN_DATA", value)
    path = tmp_path / "skpararnn_data" / "ETTh1.csv"
    path.parent.mkdir()
    path.write_bytes(CONTENT)
    assert fetch_ett("ETTh1").filename == str(path)
    assert fetch_ett("ETTh1", "~/skpararnn_data").filename == str(path)


@pytest.mark.parametrize("name", ["ETTh2", "etth1", None, ["ETTh1"]])
def test_unknown_name_is_refused(name, tmp_path):
    with pytest.raises(ValueError, match="name must be one of 'ETTh1', 'ETTm1'"):
        fetch_ett(name, tmp_path)
