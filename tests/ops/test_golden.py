"""Every op against stored results of an independent NumPy implementation."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tolerances import assert_close

from skpararnn import ops

FOLDER = Path(__file__).parents[1] / "golden"
CASES = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))

# their names and ours
NAMES = {"w_x": "weight_x", "u": "weight_h", "b": "bias", "b_q": "bias_q"}
TENSORS = ("x", "w_x", "u", "b", "b_q", "h0", "c0")


def options_of(case):
    options = {"reverse": case.get("reverse", False)}
    if "act" in case:
        options["activation"] = case["act"]
    if "reset_after" in case:
        options["reset_after"] = case["reset_after"]
    if case.get("candidate") == "identity":
        options["candidate"] = "highway"
    return options


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_op_equals_golden_file(case, dtype, backend):
    with np.load(FOLDER / case["file"]) as file:
        golden = {name: torch.from_numpy(file[name]) for name in file}
    given = {
        NAMES.get(name, name): golden[name].to(dtype).requires_grad_()
        for name in TENSORS
        if name in golden
    }

    op = getattr(ops, case["cell"])
    h, last = op(
        **given, **options_of(case), lengths=golden["lengths"], backend=backend
    )
    states = last if isinstance(last, tuple) else (last,)
    assert_close(h, golden["out"])
    loss = (h * golden["g_out"].to(dtype)).sum()
    for name, state in zip("hc", states, strict=False):
        assert_close(state, golden[f"{name}_last"])
        loss = loss + (state * golden[f"g_{name}_last"].to(dtype)).sum()

    loss.backward()
    for name in TENSORS:
        if name in golden:
            assert_close(given[NAMES.get(name, name)].grad, golden[f"grad_{name}"])


def test_all_files_are_read():
    assert len(CASES) == 29
    assert {case["file"] for case in CASES} == {f.name for f in FOLDER.glob("*.npz")}
