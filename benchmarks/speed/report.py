"""Print a result as a table, and draw it."""

import math

HEAD = ("measure", "case", "ours", "baseline", "value", "floor", "aim", "")
GROUPS = ("d_s", "T", "K")
LINES = {  # measure: how both sides of it look
    "train": {"label": "forward + backward", "linestyle": "-"},
    "infer": {"label": "forward", "linestyle": "--"},
}


def table(result):
    """Return the rows of a result as text, one line each, below the machine's facts."""
    facts = ", ".join(f"{k} {v}" for k, v in result["machine"].items() if v is not None)
    lines = [HEAD, *(_line(row) for row in result["rows"])]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    ]
    return "\n".join([facts, "", *(line.rstrip() for line in text)])


def _line(row):
    unit = f" {row['unit']}"
    return (
        row["measure"],
        row["name"] if row["group"] == "table" else f"sweep {row['name']}",
        _short(row["ours"], unit),
        _short(row["baseline"], unit),
        _short(row["value"]),
        _short(row["floor"]),
        _short(row["aim"]),
        verdict(row),
    )


def _short(number, unit=""):
    """Three digits and the unit; nothing for None."""
    if number is None:
        return ""
    digits = 2 - math.floor(math.log10(abs(number))) if number else 0
    return f"{number:.{min(max(digits, 0), 3)}f}{unit}"


def verdict(row):
    """Return "aim", "floor" or "BELOW": the last that the value reaches."""
    if row["floor"] is None:
        return ""
    sign = 1 if row["more"] else -1
    value, floor, aim = (sign * row[key] for key in ("value", "floor", "aim"))
    return "aim" if value >= aim else "floor" if value >= floor else "BELOW"


def draw(result, path):
    """Draw the time against one size at a time, as in figure 2(c) of the paper.

    Raises
    ------
    SystemExit
        matplotlib is missing; the message names the extra.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        remedy = 'python -m pip install -e ".[test]"'
        raise SystemExit(f"drawing needs matplotlib: {remedy}") from error
    figure = Figure(figsize=(13, 4), layout="constrained")
    axes = figure.subplots(1, len(GROUPS), sharey=True)
    for ax, group in zip(axes, GROUPS, strict=True):
        _draw_group(ax, group, [r for r in result["rows"] if r["group"] == group])
    axes[0].set_ylabel("milliseconds")
    lines, labels = axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside lower center", ncols=len(lines))
    machine = result["machine"]
    figure.suptitle(f"One layer, 1 thread, {machine['cpu']}, {machine['kernel']}")
    figure.savefig(path)


def _draw_group(ax, group, rows):
    for measure, style in LINES.items():
        members = [row for row in rows if row["measure"] == measure]
        sizes = [row["sizes"][group] for row in members]
        for side, color, name in (("ours", "C0", "ParaRNN"), ("baseline", "C1", "RNN")):
            label = f"{name}, {style['label']}"
            times = [row[side] for row in members]
            ax.loglog(sizes, times, marker=".", color=color, **style | {"label": label})
    ax.set_xticks(sizes, sizes)
    ax.minorticks_off()
    ax.set_xlabel(group)
    ax.set_title(_what_stays(group, rows))


def _what_stays(group, rows):
    """Return the sizes that are the same in all rows, for the title."""
    shown = [name for name in ("d_s", "K", "N", "T", "d_in") if name != group]
    values = {name: {row["sizes"][name] for row in rows} for name in shown}
    return ", ".join(f"{n}={v.pop()}" for n, v in values.items() if len(v) == 1)
