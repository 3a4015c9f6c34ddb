"""A table in Markdown and a plot of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.measuring import Measured, Results, ratio
from benchmarks.rivals import CONTENDERS, OURS

#: the lines between which a file holds the table
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def _contenders(results: Results) -> list[str]:
    there = {name for by in results.values() for name in by}
    return [name for name in CONTENDERS if name in there]


def _number(value: float | None, form: str = ".2f") -> str:
    return "" if value is None else format(value, form)


def best_rival(by: dict[str, Measured]) -> float | None:
    """Our time by that of the fastest rival in the same precision."""
    ratios = [r for name, found in by.items() if not name.startswith(OURS) and not name.endswith("16")
              and (r := ratio(by[OURS], found)) is not None]
    return max(ratios, default=None)


def table(results: Results) -> str:
    """Milliseconds of a step, ratios (below 1: faster here), peak memory, planning; a net in each line."""
    rivals = [name for name in _contenders(results) if name != OURS]
    heads = ["net", "ms", *(f"x {CONTENDERS[name].title}" for name in rivals), "x best rival", "peak MB",
             "x PyTorch's", "planning ms", "µs per operator"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for net, by in results.items():
        ours = by[OURS]
        if not ours.ms:
            lines.append(f"| {net} | failed: {ours.why} |" + " |" * (len(heads) - 2))
            continue
        cells = [net, f"{ours.median:.3g}"]
        cells += [_number(ratio(ours, by[name])) if name in by else "" for name in rivals]
        cells.append(_number(best_rival(by)))
        theirs = [by[name].peak_mb for name in ("torch", "torch-last") if name in by and by[name].peak_mb]
        cells += [f"{ours.peak_mb:.0f}", _number(ours.peak_mb / min(theirs)) if theirs else "",
                  f"{ours.planning_ms:.2g}", f"{1e3 * ours.planning_ms / ours.operators:.0f}" if ours.operators else ""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def left_out(results: Results) -> list[str]:
    """A sentence for each contender that was not timed."""
    return [f"{net}: {name} was not timed: {found.why}" for net, by in results.items() for name, found in by.items()
            if found.why is not None]


def write_table(text: str, path: Path) -> None:
    """Puts a table into a file: in the place of the last one, if the file has marks for it; else it is the file."""
    if path.exists() and BEGIN in (before := path.read_text()) and END in before:
        head, _, rest = before.partition(BEGIN)
        _, _, tail = rest.partition(END)
        text = f"{head}{BEGIN}\n{text}\n{END}{tail}"
    else:
        text += "\n"
    beside = path.with_name(path.name + ".new")
    beside.write_text(text)
    beside.replace(path)


def plot(results: Results, path: Path) -> None:
    """Bars of the ratios, by net and contender. Raises ImportError where matplotlib is not installed."""
    from matplotlib.figure import Figure

    rivals: Sequence[str] = [name for name in _contenders(results) if name != OURS]
    nets = [net for net, by in results.items() if by[OURS].ms]
    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / max(1, len(rivals))
    for k, name in enumerate(rivals):
        pairs = [(n, r) for n, net in enumerate(nets) if name in results[net]
                 and (r := ratio(results[net][OURS], results[net][name])) is not None]
        axes.bar([n + (k - len(rivals) / 2) * width for n, _ in pairs], [r for _, r in pairs], width, align="edge",
                 label=CONTENDERS[name].title)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(nets)), nets)
    axes.set_ylabel("our time by theirs (below 1: faster here)")
    axes.legend(ncols=3, fontsize="small")
    figure.savefig(path)
