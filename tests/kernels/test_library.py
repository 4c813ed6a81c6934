"""Which compiled library is used, why not, and that Python and C++ mean the same."""

import ctypes
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import skpararnn
from skpararnn.kernels import cpu
from skpararnn.kernels.cpu import _library

SOURCE = (Path(cpu.__file__).parent / "scan.cpp").read_text(encoding="utf-8")
X86 = ["x86-64-v4", "x86-64-v3", "x86-64"]


@pytest.fixture(autouse=True)
def searched_again(monkeypatch):
    """Forget what was found before, and afterwards what the test made of it."""
    monkeypatch.delenv("SKPARARNN_ISA", raising=False)
    monkeypatch.setattr(_library, "_warned", False)
    _library._find.cache_clear()
    yield
    monkeypatch.undo()
    _library._find.cache_clear()


@pytest.fixture
def compiled():
    if reason := cpu.available():
        pytest.skip(reason)


@pytest.fixture
def pretend(monkeypatch, tmp_path):
    """Pretend that libraries were compiled, and that the CPU has a level."""

    def pretend(built, level=1, **functions):
        monkeypatch.setattr(_library, "FOLDER", tmp_path)
        for isa in built:
            _library._path(isa).touch()
        functions |= {"cpu_level": lambda: level, "vector_bytes": lambda: 16}
        names = dict.fromkeys(_library._PROTOTYPES)
        monkeypatch.setattr(_library, "_functions", lambda isa: names | functions)

    return pretend


def run_fresh(code, **environment):
    """Run code in a new interpreter; returns what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# -- the same interface on both sides --------------------------------------------------


def without_comments(source):
    return re.sub(r"//.*", "", source)


def test_struct_has_the_fields_of_the_source_in_their_order():
    body = re.search(r"struct Scan \{(.*?)\};", without_comments(SOURCE), re.DOTALL)
    types = {"int64_t": ctypes.c_int64, "void*": ctypes.c_void_p}
    types["int64_t*"] = ctypes.c_void_p
    fields = []
    for declaration in filter(str.strip, body.group(1).split(";")):
        kind, names = declaration.replace("const ", "").split(maxsplit=1)
        fields += [(name.strip(), types[kind]) for name in names.split(",")]
    assert cpu.Scan._fields_ == fields


@pytest.mark.parametrize(
    ("enum", "codes"),
    [
        ("CellCode", cpu.CELL_CODES),
        ("Outputs", cpu.OUTPUT_CODES),
        ("Status", {"done": 0, "no_memory": 1, "unknown_cell": 2, "bad_sizes": 3}),
    ],
)
def test_codes_are_those_of_the_source(enum, codes):
    pattern = rf"enum {enum} : \w+ \{{(.*?)\}};"
    body = re.search(pattern, without_comments(SOURCE), re.DOTALL).group(1)
    names = [name.strip().lower() for name in body.split(",")]
    assert codes == {name: code for code, name in enumerate(names)}
    assert (_library.DONE, _library.NO_MEMORY) == (0, 1)
    assert (_library.UNKNOWN_CELL, _library.BAD_SIZES) == (2, 3)


def test_functions_are_those_of_the_source():
    found = re.findall(
        r"^EXPORT\s+(\w+)\s+skpararnn_(\w+)\(([^)]*)\)",
        without_comments(SOURCE),
        re.MULTILINE,
    )
    kinds = {"void": None, "int64_t": ctypes.c_int64}
    exported = {
        name: (len([a for a in arguments.split(",") if a.strip()]), kinds[result])
        for result, name, arguments in found
    }
    assert exported == {
        name: (len(arguments), result)
        for name, (arguments, result) in _library._PROTOTYPES.items()
    }


def test_a_misspelt_field_is_an_error():
    with pytest.raises(AttributeError, match="chekpoints"):
        cpu.Scan(chekpoints=1)


def test_fields_that_are_not_given_are_null():
    scan = cpu.Scan(K=3, x=None)
    assert (scan.K, scan.x, scan.dh0, scan.threads) == (3, None, None, 0)


# -- the choice ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "level", "chosen"),
    [
        (X86, 4, "x86-64-v4"),
        (X86, 3, "x86-64-v3"),
        (X86, 1, "x86-64"),
        (["x86-64-v4", "x86-64"], 3, "x86-64"),
        (["x86-64-v3", "x86-64"], 4, "x86-64-v3"),
        (["neon"], 1, "neon"),
        (["generic"], 1, "generic"),
    ],
)
def test_best_library_that_the_cpu_can_run(pretend, built, level, chosen):
    pretend(built, level)
    assert cpu.available() is None
    assert cpu.load().isa == chosen
    assert cpu.built() == built


def test_a_library_that_cannot_be_loaded_is_passed_over(pretend, monkeypatch):
    pretend(X86, level=4)
    functions = _library._functions

    def best_is_broken(isa):
        if isa == "x86-64-v4":
            raise _library._Unusable("scan_x86_64_v4.so cannot be loaded")
        return functions(isa)

    monkeypatch.setattr(_library, "_functions", best_is_broken)
    assert cpu.load().isa == "x86-64-v3"
    _library._find.cache_clear()
    monkeypatch.setenv("SKPARARNN_ISA", "x86-64-v4")
    assert cpu.available() == "scan_x86_64_v4.so cannot be loaded"


def test_environment_overrides_the_choice(pretend, monkeypatch):
    pretend(X86, level=4)
    monkeypatch.setenv("SKPARARNN_ISA", "x86-64-v3")
    assert cpu.load().isa == "x86-64-v3"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("avx2", "'avx2' names no instruction set; choose one of x86-64-v4, x86-64-v3"),
        ("neon", "'neon' was not compiled for this machine; what was: x86-64-v4, x86-"),
        ("x86-64-v4", "'x86-64-v4' does not run on this CPU; the best .* 'x86-64-v3'"),
    ],
)
@pytest.mark.parametrize("call", [cpu.load, cpu.available])
def test_environment_that_cannot_be_met(pretend, monkeypatch, asked, message, call):
    pretend(X86, level=3)
    monkeypatch.setenv("SKPARARNN_ISA", asked)
    with pytest.raises(ValueError, match=f"SKPARARNN_ISA={message}"):
        call()


def test_show_versions_says_what_is_used_and_what_there_is(pretend, capsys):
    pretend(X86, level=3)
    skpararnn.show_versions()
    printed = capsys.readouterr().out
    line = "CPU kernels     x86-64-v3 (compiled: x86-64-v4, x86-64-v3, x86-64)\n"
    assert line in printed


def test_show_versions_survives_a_wrong_environment(pretend, monkeypatch, capsys):
    pretend(X86)
    monkeypatch.setenv("SKPARARNN_ISA", "avx2")
    skpararnn.show_versions()
    assert "CPU kernels     none: SKPARARNN_ISA='avx2' names" in capsys.readouterr().out


def test_every_library_that_this_cpu_runs_loads_and_keeps_denormals(compiled):
    """With fast-math at link time a library switches its process to flush-to-zero."""
    code = """
import numpy as np
from skpararnn.kernels import cpu

library = cpu.load()
cpu.tanh(np.ones(1, np.float32))
tiny = np.array([1e-40], np.float32)
print(library.isa, library.bytes_per_vector, (tiny * np.float32(0.5))[0] > 0)
"""
    bytes_per_vector = {"x86-64-v4": 64, "x86-64-v3": 32}
    best = cpu.built().index(cpu.load().isa)
    for isa in cpu.built()[best:]:
        printed = run_fresh(code, SKPARARNN_ISA=isa)
        assert printed == f"{isa} {bytes_per_vector.get(isa, 16)} True"


def test_kernels_load_no_torch():
    code = (
        "import sys; from skpararnn.kernels import cpu; print('torch' in sys.modules)"
    )
    assert run_fresh(code) == "False"


# -- no library ------------------------------------------------------------------------


def no_library(monkeypatch, folder):
    monkeypatch.setattr(_library, "FOLDER", folder)


def test_without_a_library_the_reason_names_the_remedy(monkeypatch, tmp_path, capsys):
    no_library(monkeypatch, tmp_path)
    reason = cpu.available()
    assert "no CPU kernel was compiled" in reason
    assert "install a C++ compiler" in reason
    with pytest.raises(RuntimeError, match="no CPU kernel was compiled"):
        cpu.forward(cpu.Scan())
    skpararnn.show_versions()
    assert f"CPU kernels     none: {reason}" in capsys.readouterr().out


def test_baseline_is_needed_to_ask_for_the_level(pretend):
    pretend(["x86-64-v4", "x86-64-v3"], level=4)
    assert "no CPU kernel was compiled" in cpu.available()


def test_one_warning_says_that_there_is_none(monkeypatch, tmp_path):
    no_library(monkeypatch, tmp_path)
    with pytest.warns(
        UserWarning, match=r"many times slower: no CPU kernel .* install"
    ):
        cpu.warn_once_if_missing()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cpu.warn_once_if_missing()


def test_no_warning_where_there_is_one(pretend):
    pretend(["generic"])
    cpu.warn_once_if_missing()  # warnings are errors


def test_a_file_that_is_no_library_is_refused(monkeypatch, tmp_path):
    no_library(monkeypatch, tmp_path)
    _library._path("generic").write_text("not a library")
    assert "scan_generic.so cannot be loaded: " in cpu.available()


def test_a_library_with_another_struct_is_refused(compiled, monkeypatch):
    class Scan(ctypes.Structure):
        _fields_ = cpu.Scan._fields_[1:]

    monkeypatch.setattr(_library, "Scan", Scan)
    _library._find.cache_clear()
    assert "was compiled from another version of skpararnn" in cpu.available()


def test_a_library_without_a_function_is_refused(compiled, monkeypatch):
    monkeypatch.setitem(_library._PROTOTYPES, "from_tomorrow", ((), None))
    _library._find.cache_clear()
    assert "was compiled from another version of skpararnn" in cpu.available()


# -- errors of a call ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["forward", "backward"])
@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (1, MemoryError, "buffers for K=3, d_s=2, d_in=0, threads=5"),
        (2, RuntimeError, "no cell with the code 77"),
        (9, RuntimeError, "unknown status 9"),
    ],
)
def test_status_becomes_an_error(pretend, name, status, error, message):
    pretend(["generic"], **{name: lambda scan: status})
    with pytest.raises(error, match=message):
        getattr(cpu, name)(cpu.Scan(cell=77, K=3, d_s=2, threads=5))


def test_a_call_that_worked_returns_nothing(pretend):
    pretend(["generic"], forward=lambda scan: 0, backward=lambda scan: 0)
    assert cpu.forward(cpu.Scan()) is cpu.backward(cpu.Scan()) is None


@pytest.mark.parametrize("sizes", [{"chunk": 0}, {"K": 0}, {"N": -1}])
def test_the_library_itself_refuses_sizes_that_are_none(sizes, compiled):
    sizes = {"K": 2, "d_s": 2, "chunk": 16, "itemsize": 4} | sizes
    with pytest.raises(RuntimeError, match="K, d_s and chunk of at least 1"):
        cpu.forward(cpu.Scan(**sizes))


def test_the_library_itself_refuses_an_unknown_cell(compiled):
    with pytest.raises(RuntimeError, match="no cell with the code 99"):
        cpu.forward(cpu.Scan(itemsize=4, cell=99, K=1, d_s=1, d_in=1, N=1, T=1))
