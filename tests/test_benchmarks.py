"""The benchmarks run, refuse wrong answers, and report what they stored."""

import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "speed.json"


@pytest.fixture(autouse=True)
def benchmarks_are_found(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)


def measure(name, sizes):
    """What one case of the measure gives, after one round."""
    from benchmarks.speed.cases import Case
    from benchmarks.speed.clock import Clock
    from benchmarks.speed.measures import measure_all

    case = Case("tiny", name, sizes)
    with torch.random.fork_rng(devices=[]):
        [(_, measured)] = measure_all([case], Clock(seconds=0, fewest=1, most=1))
    return measured


@pytest.mark.parametrize("outputs", ["last", "all", "mean"])
@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru", "lru"])
def test_layers_are_compared_with_torch(cell, outputs):
    from benchmarks.speed.cases import Layer

    sizes = Layer(cell, K=2, N=3, T=5, d_in=2, outputs=outputs, n_layers=2)
    measured = measure("train", sizes)
    assert measured.value == pytest.approx(measured.baseline / measured.ours)


def test_estimators_are_compared_with_skorch():
    from benchmarks.speed.cases import Fit

    sizes = Fit(K=2, n_samples=8, T=3, d_in=2, batch_size=4, max_epochs=1)
    measured = measure("epoch of fit", sizes)
    assert measured.value == pytest.approx(measured.baseline / measured.ours)


@pytest.mark.parametrize(
    "name",
    [
        "fit beyond a bare loop",
        "the loop of fit alone",
        "predict beyond one bare call",
    ],
)
def test_estimators_are_compared_with_a_bare_loop(name):
    from benchmarks.speed.cases import Fit

    sizes = Fit(K=2, n_samples=8, T=3, d_in=2, batch_size=4, max_epochs=1)
    measured = measure(name, sizes)
    assert measured.value == pytest.approx(measured.ours / measured.baseline)


def test_cases_with_one_baseline_are_measured_together(monkeypatch):
    from benchmarks.speed import measures
    from benchmarks.speed.cases import Case, Layer

    groups = []

    def run(cases, clock):
        groups.append([case.name for case in cases])
        return [measures.Measured(1.0)] * len(cases)

    row = measures.MEASURES["train"]._replace(run=run)
    monkeypatch.setitem(measures.MEASURES, "train", row)
    layers = {"gru": Layer("gru"), "rnn": Layer(), "lru": Layer("lru")}
    cases = [Case(name, "train", layer) for name, layer in layers.items()]
    done = [case.name for case, _ in measures.measure_all(cases, None)]
    assert groups == [["gru", "lru"], ["rnn"]]
    assert done == ["gru", "lru", "rnn"]


def test_wrong_answers_are_not_timed(monkeypatch):
    from benchmarks.speed import layers
    from benchmarks.speed.cases import Layer

    right = layers.Ours.forward
    monkeypatch.setattr(
        layers.Ours,
        "forward",
        lambda self, x, lengths=None: 1.001 * right(self, x, lengths),
    )
    sizes = Layer(K=2, N=2, T=10, d_in=2)
    layers.check(sizes)  # both sides are wrong alike

    def wrong_in_single(self, x, lengths=None):
        factor = 1.001 if x.dtype == torch.float32 else 1.0
        return factor * right(self, x, lengths)

    monkeypatch.setattr(layers.Ours, "forward", wrong_in_single)
    with pytest.raises(SystemExit, match=r"output of Layer.* is wrong by 1.0e-03"):
        measure("train", sizes)


def test_bytes_held_are_those_of_the_states():
    from benchmarks.speed.layers import bytes_held

    class Exponential(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return (x @ self.weight).exp()  # keeps what it returns

    assert bytes_held(Exponential(), torch.ones(5, 2)) == 5 * 3 * 4


def test_every_case_has_its_own_name_and_a_known_measure():
    from benchmarks.speed.cases import CASES
    from benchmarks.speed.measures import MEASURES

    names = [(case.group, case.measure, case.name) for case in CASES]
    assert len(set(names)) == len(names)
    assert {case.measure for case in CASES} == set(MEASURES)


@pytest.mark.parametrize(
    ("value", "more", "expected"),
    [
        (5, True, "aim"),
        (3, True, "floor"),
        (1, True, "BELOW"),
        (1, False, "aim"),
        (3, False, "floor"),
        (5, False, "BELOW"),
    ],
)
def test_verdict_names_the_last_bound_that_is_reached(value, more, expected):
    from benchmarks.speed.report import verdict

    floor, aim = (2, 4) if more else (4, 2)
    row = {"value": value, "floor": floor, "aim": aim, "more": more}
    assert verdict(row) == expected


def test_floor_of_a_ratio_is_halved_for_narrow_vectors():
    from benchmarks.speed.__main__ import make_row
    from benchmarks.speed.cases import TABLE
    from benchmarks.speed.measures import Measured

    case = TABLE[0]
    floors = {
        width: make_row(case, Measured(1.0), {"vector_bytes": width})["floor"]
        for width in (64, 32)
    }
    assert floors == {64: case.floor, 32: case.floor / 2}


def test_stored_result_is_printed_and_drawn(tmp_path, capsys):
    from benchmarks.speed.__main__ import main
    from benchmarks.speed.report import draw

    result = json.loads(RESULT.read_text(encoding="utf-8"))
    copy = tmp_path / RESULT.name  # the picture is drawn beside it
    copy.write_bytes(RESULT.read_bytes())
    main(["--report", str(copy)])
    printed = capsys.readouterr().out
    assert all(row["name"] in printed for row in result["rows"])
    draw(result, tmp_path / "speed.png")
    assert (tmp_path / "speed.png").stat().st_size > 10_000
