"""The electricity transformer data: downloaded once, checked, never changed."""

import gzip
import hashlib
import os
import zlib
from pathlib import Path
from uuid import uuid4

from ..utils._parameters import check_parameters, choice
from ._files import describe, to_frame

_URL = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small/{}.csv"
_DOWNLOAD_TIMEOUT = 60  # seconds without a byte

# of the uncompressed files
_SHA256 = {
    "ETTh1": "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
    "ETTm1": "6ce1759b1a18e3328421d5d75fadcb316c449fcd7cec32820c8dafda71986c9e",
}


def fetch_ett(name, data_home=None):
    """Load a transformer's load and oil temperature, downloading it the first time.

    A copy in `data_home` is used if there is one, as `<name>.csv` or `<name>.csv.gz`;
    otherwise the file is downloaded and kept there. Either way its content must have
    the known SHA-256.

    Parameters
    ----------
    name : {"ETTh1", "ETTm1"}
        Every hour (17,420 rows) or every 15 minutes (69,680 rows).
    data_home : str or path-like, default=None
        Folder of the copy. None is the environment variable `SKPARARNN_DATA` where it
        is set, and `~/skpararnn_data` otherwise.

    Returns
    -------
    bunch : :class:`sklearn.utils.Bunch`
        * frame: DataFrame `(n_rows, 7)` of float64, indexed by time, the oil
          temperature `OT` last
        * feature_names: list of str
        * filename: str, the copy that was read
        * DESCR: str, columns, splits, origin, licence and citation

    Raises
    ------
    OSError
        If there is no copy and the download fails; names the address, and where to put
        a copy by hand.
    ValueError
        If `name` is unknown, or if the content is not the known file; names the file
        and both checksums. A download that is refused leaves nothing behind.

    Notes
    -----
    The licence, CC BY-ND 4.0, asks that the file be kept as it is.

    References
    ----------
    Zhou et al. (2021), "Informer: beyond efficient transformer for long sequence
    time-series forecasting", AAAI 35 (12).

    Examples
    --------
    >>> from skpararnn.datasets import fetch_ett
    >>> fetch_ett("ETTh1").frame.shape  # doctest: +SKIP
    (17420, 7)
    """
    from sklearn.utils import Bunch

    check_parameters({"name": choice(*_SHA256)}, {"name": name})
    path, content = _read_copy_or_download(name, _find_data_home(data_home))
    frame = _parse(content)
    return Bunch(
        frame=frame,
        feature_names=list(frame),
        filename=str(path),
        DESCR=describe("ett"),
    )


def _find_data_home(data_home):
    if data_home is None:
        data_home = os.environ.get("SKPARARNN_DATA") or "~/skpararnn_data"
    return Path(data_home).expanduser()


def _read_copy_or_download(name, data_home):
    plain, compressed = data_home / f"{name}.csv", data_home / f"{name}.csv.gz"
    for path in (plain, compressed):
        if path.exists():
            remedy = f"Delete it to have {name} downloaded, or put the original there."
            return path, _verify(name, _read(path), path, remedy)
    url = _URL.format(name)
    remedy = f"Nothing was saved. Try again, or save the original as {plain}."
    content = _verify(name, _download(url, plain), url, remedy)
    _write_whole(plain, content)
    return plain, content


def _read(path):
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(
            f"{path} is not a whole gzip file ({error}). Delete or replace it."
        ) from error


def _download(url, path):
    import urllib.request
    from http.client import HTTPException

    try:
        with urllib.request.urlopen(url, timeout=_DOWNLOAD_TIMEOUT) as response:
            return response.read()
    except (OSError, HTTPException) as error:
        raise OSError(
            f"Cannot download {url} ({error}). Without a network, save the file as "
            f"{path}, or name the folder that has it by data_home or SKPARARNN_DATA."
        ) from error


def _verify(name, content, origin, remedy):
    found = hashlib.sha256(content).hexdigest()
    if found != _SHA256[name]:
        raise ValueError(
            f"{origin} is not the original {name}: expected SHA-256 {_SHA256[name]}, "
            f"found {found}. {remedy}"
        )
    return content


def _write_whole(path, content):
    # written beside and renamed: a reader never meets half a file
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _parse(content):
    import pandas as pd

    rows = (line.split(",") for line in content.decode().splitlines())
    columns = {name: values for name, *values in zip(*rows, strict=True)}
    time = pd.to_datetime(columns.pop("date"))
    return to_frame(columns).astype("float64").set_index(time.rename("time"))
