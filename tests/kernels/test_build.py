"""What the compiler made of ``scan.cpp``: vector code that needs no other library."""

import re
import shutil
import subprocess
import sys

import pytest

from skpararnn.kernels import cpu
from skpararnn.kernels.cpu import _library

# instruction set: what the hot loops are made of, as objdump writes it, and how often
# at least. There are thousands; code that was not vectorised has none on full registers
VECTOR_CODE = {
    "x86-64-v4": (r"vfn?m(add|sub)\d+ps .*%zmm", 500),
    "x86-64-v3": (r"vfn?m(add|sub)\d+ps .*%ymm", 500),
    "x86-64": (r"\bmulps .*%xmm", 500),
    "neon": (r"fml[as]\s+v\d+\.4s", 500),
}


def library(isa):
    if isa not in cpu.built():
        pytest.skip(f"the library for {isa} was not compiled on this machine")
    return _library._path(isa)


def output_of(tool, *arguments):
    if shutil.which(tool) is None:
        pytest.skip(f"needs {tool}, a part of binutils")
    done = subprocess.run(
        [tool, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize("isa", VECTOR_CODE)
def test_library_is_vector_code_of_its_instruction_set(isa):
    pattern, least = VECTOR_CODE[isa]
    code = output_of("objdump", "-d", "--no-show-raw-insn", library(isa))
    assert len(re.findall(pattern, code)) >= least


@pytest.mark.parametrize("isa", VECTOR_CODE)
@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_library_needs_only_the_c_library(isa):
    """A wheel runs wherever glibc or musl does, and beside any C++ of torch."""
    dynamic = output_of("objdump", "-p", library(isa))
    needed = set(re.findall(r"NEEDED +(\S+)", dynamic))
    assert not {
        name for name in needed if not re.match(r"(lib(c|m|pthread)|ld-linux)\b", name)
    }


@pytest.mark.parametrize("isa", VECTOR_CODE)
@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_library_shows_only_its_interface(isa):
    symbols = output_of("nm", "--dynamic", "--defined-only", library(isa))
    names = {line.split()[-1] for line in symbols.splitlines()}
    assert names == {f"skpararnn_{name}" for name in _library._PROTOTYPES}
