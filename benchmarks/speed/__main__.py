"""Command line of the benchmarks."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch

from skpararnn.kernels import cpu

from . import machine, report
from .cases import CASES, TABLE
from .clock import FULL, QUICK
from .measures import MEASURES, ROOT, measure_all

RESULT = ROOT / "benchmarks" / "results" / "speed.json"
CONTRACT = ("tests/ops", "tests/kernels")


def main(arguments=None):
    """Test, measure, write and report."""
    chosen = parse(arguments)
    if chosen.report:
        show(json.loads(chosen.report.read_text(encoding="utf-8")), chosen.report)
        return
    # before any thread starts: it is a setting of the thread, which the next inherits
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    result = {"machine": machine.describe()}
    cases = pick(chosen)
    if not (chosen.quick or chosen.only):
        run_contract()
    rows = {}
    for case, measured in measure_all(cases, QUICK if chosen.quick else FULL):
        rows[case] = make_row(case, measured, result["machine"])
        print(f"{case.measure}: {case.name}: {measured.value:.3g}", flush=True)
    result["rows"] = [rows[case] for case in cases]
    show(result, chosen.output)


def parse(arguments):
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed")
    parser.add_argument(
        "--quick", action="store_true", help="what has a floor; 3 minutes"
    )
    parser.add_argument("--only", help="cases whose measure or name has this text")
    parser.add_argument("--report", type=Path, help="show a result; measure nothing")
    parser.add_argument("--output", type=Path, help=f"default of a full run: {RESULT}")
    chosen = parser.parse_args(arguments)
    if not (chosen.output or chosen.quick or chosen.only):
        chosen.output = RESULT
    return chosen


def pick(chosen):
    """Return the cases to measure."""
    cases = [c for c in TABLE if c.floor] if chosen.quick else CASES
    if chosen.only:
        cases = [c for c in cases if chosen.only in f"{c.measure}: {c.name}"]
    if reason := cpu.available():
        print(f"left out is what needs a kernel: {reason}")
        cases = [c for c in cases if not MEASURES[c.measure].needs_kernel]
    if not cases:
        raise SystemExit("no case is left to measure")
    return cases


def run_contract():
    """Run the contract of the ops; a wrong answer has no speed."""
    folders = [folder for folder in CONTRACT if (ROOT / folder).exists()]
    command = [sys.executable, "-m", "pytest", "-q", *folders]
    if subprocess.run(command, cwd=ROOT).returncode:
        raise SystemExit("nothing is timed: the tests of the ops fail")


def make_row(case, measured, facts):
    """Return a case and what it gave; floor and aim are those for this machine."""
    measure = MEASURES[case.measure]
    halved = measure.by_width and facts["vector_bytes"] < 64
    bounds = {
        name: bound / 2 if halved and bound is not None else bound
        for name, bound in (("floor", case.floor), ("aim", case.aim))
    }
    return {
        "measure": case.measure,
        "name": case.name,
        "group": case.group,
        "sizes": case.sizes._asdict(),
        **measured._asdict(),
        "more": measure.more,
        **bounds,
    }


def show(result, path):
    """Print the table; write and draw the result where a path is given."""
    print(f"\n{report.table(result)}")
    if path is None:
        return
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if any(row["group"] != "table" for row in result["rows"]):
        report.draw(result, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
