"""The package as pip, a new user and a careless commit see it."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import skpararnn
from skpararnn._min_dependencies import MIN_DEPENDENCIES, PYTHON_MIN_VERSION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
README = (ROOT / "README.rst").read_text(encoding="utf-8")
COMMANDS = (
    "python -m pip install -e . && python examples/quickstart.py",
    'python -m pip install -e ".[test]" && python -m pytest',
)


def requirements():
    """(name, oldest version) -> extra, as pyproject.toml states them."""
    project = PROJECT["project"]
    stated = {None: project["dependencies"], **project["optional-dependencies"]}
    pattern = re.compile(r"([\w-]+)>=([\d.]+)(,<[\d.]+)?")
    return {
        pattern.fullmatch(line).group(1, 2): extra
        for extra, lines in stated.items()
        for line in lines
    }


# -- metadata --------------------------------------------------------------------------


def test_bounds_are_those_of_the_table():
    table = {
        (name, oldest): extra for name, (oldest, extra) in MIN_DEPENDENCIES.items()
    }
    assert requirements() == table


def test_build_uses_the_setuptools_that_the_tests_ask_for():
    oldest, _ = MIN_DEPENDENCIES["setuptools"]
    assert PROJECT["build-system"]["requires"] == [f"setuptools>={oldest}"]


def test_python_bound_is_that_of_the_table():
    assert PROJECT["project"]["requires-python"] == f">={PYTHON_MIN_VERSION}"


def test_version_stands_once_and_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", skpararnn.__version__)
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "skpararnn.__version__"
    }


def test_open_block_of_changes_is_the_version_in_development():
    changes = (ROOT / "CHANGES.rst").read_text(encoding="utf-8")
    newest = re.search(r"^(\d+\.\d+\.\d+) \((.+)\)$", changes, flags=re.MULTILINE)
    release = re.match(r"\d+\.\d+\.\d+", skpararnn.__version__).group()
    assert newest.group(1) == release
    assert (newest.group(2) == "unreleased") == ("dev" in skpararnn.__version__)


# -- commands --------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_readme_gives_the_command_once_as_a_line_of_its_own(command):
    assert len(re.findall(rf"^    {re.escape(command)}$", README, re.MULTILINE)) == 1
    assert README.count(command) == 1


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_ci_script_is_executable_and_parses():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(script)], check=True)


# -- what is shipped -------------------------------------------------------------------


def tracked_files():
    """Files that git knows, or skip: an unpacked archive has no git."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True
    )
    names = listing.stdout.decode().split("\0")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_file_names_a_place_on_somebodys_machine():
    machine_path = re.compile(rb"/(home|root|work|Users|mnt|opt|tmp)/[\w.-]+")
    found = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in tracked_files()
        if path.suffix in {".py", ".rst", ".toml", ".yaml", ".json", ".md", ""}
        for match in machine_path.finditer(path.read_bytes())
    ]
    assert not found


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Paths of an sdist and a wheel, built from a copy of the checkout."""
    copy, target = (tmp_path_factory.mktemp(name) for name in ("source", "archives"))
    for path in tracked_files():
        place = copy / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    for hook in ("build_sdist", "build_wheel"):
        call = f"from setuptools import build_meta; build_meta.{hook}({str(target)!r})"
        subprocess.run(
            [sys.executable, "-c", call], cwd=copy, capture_output=True, check=True
        )
    (sdist,), (wheel,) = target.glob("*.tar.gz"), target.glob("*.whl")
    return sdist, wheel


def test_wheel_holds_the_package_with_its_data_and_nothing_else(archives):
    with zipfile.ZipFile(archives[1]) as wheel:
        names = wheel.namelist()
    package = {
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.is_relative_to(ROOT / "skpararnn")
    }
    assert {name for name in names if ".dist-info/" not in name} == package
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_sdist_holds_what_a_packager_needs_to_test_it(archives):
    with tarfile.open(archives[0]) as sdist:
        # the first folder of an sdist is the name and version of the release
        names = {name.partition("/")[2] for name in sdist.getnames()}
    needed = {"README.rst", "CHANGES.rst", "CONTRIBUTING.rst", "LICENSE", "Makefile"}
    needed |= {
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.relative_to(ROOT).parts[0] in {"skpararnn", "tests", "examples"}
    }
    assert needed <= names


def test_wheel_works_away_from_the_checkout(archives, tmp_path):
    with zipfile.ZipFile(archives[1]) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        "import skpararnn; print(skpararnn.__file__)\n"
        "print(len(skpararnn.datasets.load_japanese_vowels().data))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    place, n_samples = done.stdout.split()
    assert Path(place).is_relative_to(tmp_path)
    assert n_samples == "270"
