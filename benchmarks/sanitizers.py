"""Compile the CPU kernel with sanitizers, run its contract, write down the findings.

    python benchmarks/sanitizers.py          (or: make sanitize)
    python benchmarks/sanitizers.py thread g++ x86-64-v3

Words choose a check, a compiler, an instruction set; without them it is everything of
``CHECKS`` for every compiler that is installed: warnings, errors of memory
(AddressSanitizer), undefined behaviour, uninitialised numbers (MemorySanitizer, clang
alone) and data races (ThreadSanitizer). What is compiled is
``tests/kernels/contract.cpp``, which includes the kernel, with the flags of
``setup.py`` at a lower optimisation. All of it takes about twenty minutes on an idle
machine; the everyday tests run a part, see ``tests/kernels/test_sanitizers.py``.

The result is ``benchmarks/results/sanitizers.json``. Runs that were not chosen stay
from the time before: each has its date and a digest of the kernel. The exit status is 0
only if nothing was found.
"""

import hashlib
import json
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
KERNEL = ROOT / "skpararnn" / "kernels" / "cpu" / "scan.cpp"
CONTRACT = ROOT / "tests" / "kernels" / "contract.cpp"
RESULT = ROOT / "benchmarks" / "results" / "sanitizers.json"
COMPILERS = ("g++", "clang++")

STOP = ("-O1", "-g1", "-fno-sanitize-recover=all")

# check: its flags, the arguments of the contract, the compilers that know it
CHECKS = {
    "warnings": (("-O1", "-Wall", "-Wextra", "-Werror"), (), COMPILERS),
    "address": ((*STOP, "-fsanitize=address"), (), COMPILERS),
    "undefined": ((*STOP, "-fsanitize=undefined"), (), COMPILERS),
    "memory": ((*STOP, "-fsanitize=memory"), (), ("clang++",)),
    "thread": ((*STOP, "-fsanitize=thread"), ("threads",), COMPILERS),
}

# instruction sets: the narrowest vectors, and the widest that is common
ISAS = ("x86-64", "x86-64-v3")


def main():
    """Run the checks asked for, write the result, return the exit status."""
    words = set(sys.argv[1:])
    chosen = [row for row in rows() if words <= set(row)]
    if not chosen:
        raise SystemExit(f"nothing to run; choose words of {sorted(rows())}")
    runs = [run_check(*row) for row in chosen]
    write(runs)
    return int(any(run["finding"] for run in runs))


def rows():
    """All that can be run here: compiler, check, instruction set."""
    return [
        (compiler, check, isa)
        for compiler in filter(shutil.which, COMPILERS)
        for check, (_, _, known) in CHECKS.items()
        if compiler in known
        for isa in ISAS
    ]


def run_check(compiler, check, isa):
    """Compile and run the contract once; returns the row of the result."""
    flags, arguments, _ = CHECKS[check]
    say(f"{compiler}, {check}, {isa}")
    kernel = hashlib.sha256(KERNEL.read_bytes()).hexdigest()[:12]
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        contract = Path(folder) / "contract"
        finding = build(contract, [compiler], isa, flags)
        printed, finding = ("", finding) if finding else run(contract, arguments)
    if finding:
        print(finding)
    return {
        "compiler": compiler,
        "check": check,
        "isa": isa,
        "date": datetime.now(UTC).date().isoformat(),
        "kernel": kernel,
        "flags": " ".join(flags),
        "runs": sum(map(int, re.findall(r"(\d+) runs", printed))),
        "seconds": round(time.perf_counter() - started),
        "finding": finding,
    }


def build(target, compiler, isa, flags, kernel=KERNEL):
    """Compile the contract; returns what the compiler complained about, or ''."""
    settings = build_settings()
    shared = [flag for flag in settings["FLAGS"] if flag != "-shared"]
    own = settings["X86"][isa].split()
    paths = [f"-I{kernel.parent}", str(CONTRACT), "-o", str(target)]
    done = subprocess.run(
        [*compiler, *shared, *own, *flags, *paths], capture_output=True, text=True
    )
    return done.stderr if done.returncode else ""


def build_settings():
    """Return the names that ``setup.py`` defines, without its doing anything."""
    with mock.patch("setuptools.setup"):
        return runpy.run_path(str(ROOT / "setup.py"))


def run(contract, arguments=()):
    """Run the contract; returns what it printed, and what was found, or ''."""
    done = subprocess.run([contract, *arguments], capture_output=True, text=True)
    if not done.returncode:
        return done.stdout, ""
    found = done.stderr or f"ended with status {done.returncode}"
    return done.stdout, found.replace(str(ROOT), ".")[:4000]


def write(runs):
    """Write the result: facts of the machine that explain it, none that name it."""
    done = {(run["compiler"], run["check"], run["isa"]): run for run in before() + runs}
    result = {
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "compilers": {name: version(name) for name in filter(shutil.which, COMPILERS)},
        "shared flags": " ".join(build_settings()["FLAGS"]),
        "threads": "4 in one call; 2 calls at once with 2 threads each",
        "runs": list(done.values()),
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    found = sum(bool(run["finding"]) for run in runs)
    say(f"{len(runs)} builds, {found} with findings; {RESULT.relative_to(ROOT)}")


def before():
    """Return the runs that the result holds already."""
    if not RESULT.exists():
        return []
    return json.loads(RESULT.read_text(encoding="utf-8"))["runs"]


def version(compiler):
    """Return the first line of what the compiler says about itself."""
    command = [compiler, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def say(text):
    """Show progress before a step that may take minutes."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
