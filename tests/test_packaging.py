"""The package as pip, a new user and a careless commit see it."""

import os
import platform
import re
import shlex
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


# Stands for a compiler, which would take minutes: writes down how it was called, and
# something for a library.
FAKE_COMPILER = """
import sys
from pathlib import Path

arguments = sys.argv[1:]
if "{refuses}" in arguments:
    sys.exit("error: unknown option {refuses}")
library = Path(arguments[arguments.index("-o") + 1])
library.write_bytes(b"library")
Path(__file__).with_name(library.name + ".txt").write_text("\\n".join(arguments))
"""

FAILING = shlex.join([sys.executable, "no_such_file.py"])

X86 = ("x86_64_v4", "x86_64_v3", "x86_64")
MACHINES = {"x86_64": X86, "amd64": X86, "aarch64": ("neon",), "arm64": ("neon",)}
KERNELS = {
    f"skpararnn/kernels/cpu/scan_{name}.so"
    for name in MACHINES.get(platform.machine().lower(), ("generic",))
}


def fake_compiler(folder, refuses=""):
    """Command that can stand in the environment variable CXX."""
    script = folder / "compiler.py"
    script.write_text(FAKE_COMPILER.format(refuses=refuses))
    return shlex.join([sys.executable, str(script)])


@pytest.fixture(scope="module")
def make_copy(tmp_path_factory):
    """Return a function that copies what git knows; nobody builds in the checkout."""

    def make_copy():
        copy = tmp_path_factory.mktemp("source")
        for path in tracked_files():
            place = copy / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
        return copy

    return make_copy


def build(copy, hook, compiler):
    """Run a hook of the build backend, as pip does; returns archive and messages."""
    call = (
        f"from setuptools import build_meta\nprint(build_meta.build_{hook}('archives'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", call],
        cwd=copy,
        env=os.environ | {"CXX": compiler},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("skpararnn: ")]
    return copy / "archives" / done.stdout.split()[-1], said


@pytest.fixture(scope="module")
def compiler_calls(tmp_path_factory):
    """Folder where the compiler of `archives` writes down how it is called."""
    return tmp_path_factory.mktemp("bin")


@pytest.fixture(scope="module")
def archives(make_copy, compiler_calls):
    """Paths of an sdist and a wheel, built from a copy of the checkout."""
    copy, compiler = make_copy(), fake_compiler(compiler_calls)
    return build(copy, "sdist", compiler)[0], build(copy, "wheel", compiler)[0]


def names_in(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def kernels_in(wheel):
    return {name for name in names_in(wheel) if name.endswith(".so")}


def metadata_of(wheel):
    """The file WHEEL, as a dict."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/WHEEL"))
        lines = archive.read(name).decode().strip().splitlines()
    return dict(line.split(": ", 1) for line in lines)


def test_wheel_holds_the_package_with_its_data_and_nothing_else(archives):
    names = names_in(archives[1])
    package = {
        path.relative_to(ROOT).as_posix()
        for path in tracked_files()
        if path.is_relative_to(ROOT / "skpararnn")
    }
    assert {name for name in names if ".dist-info/" not in name} == package | KERNELS
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


# -- the compiled kernels --------------------------------------------------------------


def test_wheel_is_for_every_python_of_the_platform(archives):
    """Nothing in a library depends on a Python."""
    tag = "-".join(archives[1].stem.split("-")[2:])
    assert re.fullmatch(r"py3-none-(?!any)\w+", tag)
    metadata = metadata_of(archives[1])
    assert (metadata["Tag"], metadata["Root-Is-Purelib"]) == (tag, "false")


def test_compiler_is_told_what_it_must_and_must_not_do(archives, compiler_calls):
    calls = {
        path.stem: path.read_text().splitlines()
        for path in compiler_calls.glob("*.so.txt")
    }
    assert {f"skpararnn/kernels/cpu/{name}" for name in calls} == KERNELS
    bytes_per_vector = {"scan_x86_64_v4.so": 64, "scan_x86_64_v3.so": 32}
    for name, arguments in calls.items():
        assert f"-DVECTOR_BYTES={bytes_per_vector.get(name, 16)}" in arguments
        # linked with them, the library would change the arithmetic of its process
        assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"} & {
            *arguments
        }
        assert {"-O3", "-fPIC", "-fvisibility=hidden", "-fno-exceptions"} <= {
            *arguments
        }


def test_editable_install_puts_the_libraries_beside_their_source(make_copy, tmp_path):
    copy = make_copy()
    folder = copy / "skpararnn" / "kernels" / "cpu"
    old = folder / "scan_of_yesterday.so"
    old.touch()
    build(copy, "editable", fake_compiler(tmp_path))
    found = {path.relative_to(copy).as_posix() for path in folder.glob("*.so")}
    assert found == KERNELS


@pytest.mark.skipif(len(KERNELS) < 2, reason="one library only on this machine")
def test_libraries_that_do_compile_are_kept(make_copy, tmp_path):
    compiler = fake_compiler(tmp_path, refuses="-march=x86-64-v4")
    wheel, said = build(make_copy(), "wheel", compiler)
    left_out = "skpararnn/kernels/cpu/scan_x86_64_v4.so"
    assert kernels_in(wheel) == KERNELS - {left_out}
    assert "-none-any" not in wheel.name
    assert len(said) == 1
    assert "scan_x86_64_v4.so was left out" in said[0]


def not_a_program(folder):
    """A file that is executable in name only."""
    path = folder / "c++"
    path.write_text("nothing")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("compiler", "sentence", "n_lines"),
    [
        (lambda _: "/nonexistent/c++ -m64", r"no C\+\+ compiler \(CXX=/nonexist", 1),
        (lambda _: FAILING, r"left out, for this failed \(2\)", len(KERNELS)),
        (not_a_program, r"left out, .* \(.*Exec format error", len(KERNELS)),
    ],
    ids=["missing", "failing", "broken"],
)
def test_without_a_compiler_the_wheel_is_pure_and_one_line_says_so(
    make_copy, tmp_path, compiler, sentence, n_lines
):
    wheel, said = build(make_copy(), "wheel", compiler(tmp_path))
    assert wheel.stem.endswith("-py3-none-any")
    assert metadata_of(wheel)["Root-Is-Purelib"] == "true"
    assert not kernels_in(wheel)
    assert len(said) == n_lines
    assert all(re.search(sentence, line) for line in said)


def test_only_what_is_older_than_its_source_is_compiled_again(make_copy, tmp_path):
    copy = make_copy()
    build(copy, "wheel", fake_compiler(tmp_path))
    wheel, _ = build(copy, "wheel", FAILING)
    assert kernels_in(wheel) == KERNELS
    (copy / "skpararnn" / "kernels" / "cpu" / "scan.cpp").touch()
    wheel, _ = build(copy, "wheel", FAILING)
    assert not kernels_in(wheel)  # none is left over from before


@pytest.mark.slow  # minutes of compilation
def test_kernels_of_a_wheel_that_was_built_from_the_sdist_work(archives, tmp_path):
    with tarfile.open(archives[0]) as sdist:
        sdist.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    wheel, said = build(source, "wheel", os.environ.get("CXX", ""))
    assert not said
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    code = (
        "import numpy as np; from skpararnn.kernels import cpu\n"
        "print(cpu.__file__); print(cpu.tanh(np.array([20.0])))"
    )
    place, number = run_in(tmp_path / "site", code)
    assert Path(place).is_relative_to(tmp_path / "site")
    assert number == "[1.]"


# -- elsewhere -------------------------------------------------------------------------


def run_in(site, code):
    """Run code with the packages of a folder in front; returns the words it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=site,
        env=os.environ | {"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_wheel_works_away_from_the_checkout(archives, tmp_path):
    with zipfile.ZipFile(archives[1]) as wheel:
        wheel.extractall(tmp_path)
    code = (
        "import skpararnn; print(skpararnn.__file__)\n"
        "print(len(skpararnn.datasets.load_japanese_vowels().data))"
    )
    place, n_samples = run_in(tmp_path, code)
    assert Path(place).is_relative_to(tmp_path)
    assert n_samples == "270"
