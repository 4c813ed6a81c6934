"""The kernel's own contract, compiled with AddressSanitizer and checks for undefined
behaviour. `make sanitize` runs all of it, with every sanitizer and compiler."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# What an everyday build keeps of scan.cpp: a number type and a third of the cells,
# because the whole takes minutes to compile.
PARTS = {
    "x86-64": ("double", ["LSTM", "GRU_AFTER", "LRU_TANH"]),
    "x86-64-v3": ("float", ["RNN_TANH", "GRU_BEFORE", "LRU_HIGHWAY"]),
}

# without the checks of every pointer (null, alignment, overflow), which take most of
# the time that "undefined" costs a compiler
SANITIZERS = (
    "address,bounds,shift,signed-integer-overflow,integer-divide-by-zero,"
    "nonnull-attribute"
)
FLAGS = ["-O1", f"-fsanitize={SANITIZERS}", "-fsanitize-undefined-trap-on-error"]
OUTLINED = ["--param", "asan-instrumentation-with-call-threshold=0"]  # compiles faster


@pytest.fixture
def sanitizers(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import sanitizers

    return sanitizers


def compiler_with_sanitizers(folder):
    """The compiler's command; skips where it cannot link or start such a program."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    (folder / "empty.cpp").write_text("int main() {}")
    command = ["g++", *FLAGS, *OUTLINED, folder / "empty.cpp", "-o", folder / "empty"]
    linked = subprocess.run(command, capture_output=True, text=True)
    if linked.returncode:
        pytest.skip(f"needs the sanitizers of g++: {linked.stderr}")
    if subprocess.run([folder / "empty"], capture_output=True).returncode:
        pytest.skip("this machine cannot start what was compiled with AddressSanitizer")
    return ["g++", *OUTLINED]


def skip_unless_cpu_has(isa):
    from skpararnn.kernels import cpu
    from skpararnn.kernels.cpu import _library

    if isa not in cpu.built():
        pytest.skip(f"the library for {isa} was not compiled on this machine")
    if _library.INSTRUCTION_SETS[isa] > _library._cpu_level():
        pytest.skip(f"this CPU lacks {isa}")


def cut(source, real, cells):
    """The source with some cells and one number type."""
    source = re.sub(
        r"^ +case (\w+):\s+plan_cell.*\n\s+break;\n",
        lambda case: case[0] if case[1] in cells else "",
        source,
        flags=re.MULTILINE,
    )
    return re.sub(r"on_layer<Call, \w+>", f"on_layer<Call, {real}>", source)


@pytest.mark.parametrize("isa", PARTS)
def test_contract_under_sanitizers(sanitizers, tmp_path, isa):
    skip_unless_cpu_has(isa)
    compiler = compiler_with_sanitizers(tmp_path)
    real, cells = PARTS[isa]
    kernel = tmp_path / "scan.cpp"
    kernel.write_text(cut(sanitizers.KERNEL.read_text(encoding="utf-8"), real, cells))
    contract = tmp_path / "contract"
    flags = [*FLAGS, f"-DREALS={real}"]
    assert not sanitizers.build(contract, compiler, isa, flags, kernel)
    printed, finding = sanitizers.run(contract)
    assert not finding
    counts = re.findall(r"(\d+) runs", printed)
    assert len(counts) == len(cells)  # else the patterns of `cut` no longer fit
    assert min(map(int, counts)) > 500
