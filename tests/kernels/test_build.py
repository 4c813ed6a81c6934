"""What the compiler made of ``scan.cpp``: vector code that needs no other library."""

import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from skpararnn.kernels import cpu
from skpararnn.kernels.cpu import _library

# instruction set: what the hot loops are made of, float and double, as objdump writes
# it, then the same arithmetic on single numbers. There are thousands of the first;
# code that was not vectorised has none on full registers
VECTOR_CODE = {
    "x86-64-v4": (r"vfn?m(?:add|sub)\d+(p[sd]) .*%zmm", r"\bv(fn?m|mul)\w*s[sd]\b"),
    "x86-64-v3": (r"vfn?m(?:add|sub)\d+(p[sd]) .*%ymm", r"\bv(fn?m|mul)\w*s[sd]\b"),
    "x86-64": (r"\bmul(p[sd]) .*%xmm", r"\bmuls[sd]\b"),
    "neon": (r"fml[as]\s+v\d+\.(4s|2d)", r"\bfn?m(add|sub|ul)\s+[sd]\d"),
}
FEWEST = 500  # of each number type
PACKED_PER_SINGLE = 20  # single numbers are left in sizes and shares, not in loops


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
    vector, single = VECTOR_CODE[isa]
    code = output_of("objdump", "-d", "--no-show-raw-insn", library(isa))
    packed = Counter(re.findall(vector, code))
    assert len(packed) == 2  # float and double
    assert min(packed.values()) >= FEWEST
    assert packed.total() >= PACKED_PER_SINGLE * len(re.findall(single, code))


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
