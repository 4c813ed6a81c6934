"""Run what CI has no time for, and write down what happened.

    python benchmarks/slow.py          (or: make slow)

First the tests marked ``slow``, in the environment that runs this script. Then the
everyday suite in a second environment, made for the purpose and removed afterwards,
with exactly the versions of ``skpararnn/_min_dependencies.py``. On Linux that means a
CUDA build of torch: some 6 GB in TMPDIR and a few minutes.

The result is ``benchmarks/results/slow.json``: versions, counts and seconds of both
runs. The exit status is 0 only if both ran tests and all of them passed.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "slow.json"

sys.path.insert(0, str(ROOT))
from skpararnn import __version__  # noqa: E402  (needs the line above)
from skpararnn._min_dependencies import (  # noqa: E402
    MIN_DEPENDENCIES,
    PYTHON_MIN_VERSION,
)

# what the suite needs; lint is no part of it
TESTED_EXTRAS = (None, "test")


def main():
    """Run both parts, write the result, return the exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        runs = {
            "slow tests": run_tests(sys.executable, "slow"),
            "oldest versions": run_tests(oldest_python(Path(scratch)), "not slow"),
        }
    write(runs)
    for name, run in runs.items():
        print(f"{name}: {run['passed']} passed, {run['failed']} failed")
    return int(any(run["failed"] or not run["passed"] for run in runs.values()))


def oldest_python(scratch):
    """Make the second environment; returns its interpreter."""
    oldest = f"python{PYTHON_MIN_VERSION}"
    command = shutil.which(oldest)
    if command is None:
        raise SystemExit(f"the oldest versions need {oldest} on PATH; none was found.")
    say(f"{oldest} with the oldest versions")
    subprocess.run([command, "-m", "venv", scratch / "env"], check=True)
    python = scratch / "env" / "bin" / "python"
    pins = [
        f"{name}=={version}"
        for name, (version, extra) in MIN_DEPENDENCIES.items()
        if extra in TESTED_EXTRAS
    ]
    install = [python, "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    subprocess.run([*install, "-e", str(ROOT), *pins], check=True)
    return python


def run_tests(python, marked):
    """Run pytest with one interpreter; returns counts, seconds and versions."""
    say(f"tests marked {marked!r}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [python, "-m", "pytest", "-m", marked, f"--junitxml={report}"],
            cwd=ROOT,
            check=False,  # a failure is a result: it is counted below
        )
        if not report.exists():
            raise SystemExit("pytest ended without a report; its reason stands above.")
        suite = ElementTree.parse(report).getroot().find("testsuite").attrib
    failed = int(suite["failures"]) + int(suite["errors"])
    skipped = int(suite["skipped"])
    return {
        "passed": int(suite["tests"]) - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "seconds": round(float(suite["time"])),
        "versions": versions(python),
    }


def versions(python):
    """Installed versions of the dependencies, as this interpreter sees them."""
    code = (
        "import json, platform, sys\n"
        "from importlib.metadata import version\n"
        "found = {name: version(name) for name in sys.argv[1:]}\n"
        "print(json.dumps({'python': platform.python_version(), **found}))"
    )
    names = [n for n, (_, extra) in MIN_DEPENDENCIES.items() if extra in TESTED_EXTRAS]
    found = subprocess.run(
        [python, "-c", code, *names], check=True, capture_output=True, text=True
    )
    return json.loads(found.stdout)


def write(runs):
    """Write the result: facts of the machine that explain it, none that name it."""
    result = {
        "skpararnn": __version__,
        "date": datetime.now(UTC).date().isoformat(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "runs": runs,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    say(f"wrote {RESULT.relative_to(ROOT)}")


def say(text):
    """Show progress before a step that may take minutes."""
    print(f"\n== {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
