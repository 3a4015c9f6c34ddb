"""`python -m benchmarks [NET ...]`: training steps here and elsewhere, as ratios within one run.

Every contender runs each net in a process of its own, in turn, several rounds; medians are compared, since machines
drift. Contenders: this project as it is and with the plain plan, PyTorch eager in both layouts and compiled, and Caffe2
where CAFFE2_PYTHON names its interpreter. Writes a table, and a plot where matplotlib is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NETS = ("mlp", "lenet", "resnet50", "lstm", "dlrm", "transformer", "video", "wide", "tiny")
HERE = Path(__file__).parent
OURS = "netgrad"


def contenders(chosen: str) -> list[str]:
    found = [OURS, "plain", "torch", "torch-last"]
    if shutil.which("c++") or shutil.which("g++"):
        found.append("torch-compile")
    if os.environ.get("CAFFE2_PYTHON"):
        found.append("caffe2")
    return [name for name in found if name in chosen.split(",")] if chosen else found


def measure(contender: str, net: str, threads: int) -> dict[str, float] | None:
    """What one process says: milliseconds a step, of planning, and megabytes at most. None where it cannot."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    if contender == "plain":
        environment["NETGRAD_PASSES"] = "none"
    python = os.environ["CAFFE2_PYTHON"] if contender == "caffe2" else sys.executable
    done = subprocess.run([python, "-m", "benchmarks.worker", contender, net], capture_output=True, text=True,
                          cwd=HERE.parent, env=environment, check=False)
    if done.returncode:
        return None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def table(results: dict[str, dict[str, list[dict[str, float]]]], names: list[str]) -> str:
    """Milliseconds a step here, then how many times as long as each rival that is; peak memory and planning."""
    rivals = [name for name in names if name != OURS]
    lines = [f"| net | ms | {' | '.join(f'x {name}' for name in rivals)} | MB | x torch | planning ms |",
             "|---" * (len(rivals) + 5) + "|"]
    for net, by in results.items():
        if not by[OURS]:
            continue
        ours = by[OURS]
        cells = [net, f"{statistics.median(r['ms'] for r in ours):.3g}"]
        for rival in rivals:
            pairs = [a["ms"] / b["ms"] for a, b in zip(ours, by[rival])]
            cells.append(f"{statistics.median(pairs):.2f}" if pairs else "")
        peak = statistics.median(r["peak_mb"] for r in ours)
        theirs = [r["peak_mb"] for r in by.get("torch", ())]
        cells += [f"{peak:.0f}", f"{peak / statistics.median(theirs):.2f}" if theirs else "",
                  f"{statistics.median(r['planning_ms'] for r in ours):.2g}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(results: dict[str, dict[str, list[dict[str, float]]]], names: list[str], path: Path) -> bool:
    """Bars of the ratios; whether matplotlib is there to draw them."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rivals = [name for name in names if name != OURS]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    axes = figure.subplots()
    for k, rival in enumerate(rivals):
        heights = [statistics.median([a["ms"] / b["ms"] for a, b in zip(by[OURS], by[rival])] or [0])
                   for by in results.values()]
        axes.bar([n + (k - len(rivals) / 2) * 0.8 / len(rivals) for n in range(len(results))], heights,
                 0.8 / len(rivals), label=rival, align="edge")
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(results)), list(results))
    axes.set_ylabel("time of a step, as a ratio\n(below 1: faster here)")
    axes.legend(ncols=len(rivals), fontsize="small")
    figure.savefig(path)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n\n")[0])
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"which; {', '.join(NETS)} unless given")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--contenders", default="", help="names, separated by commas; all that there are unless given")
    parser.add_argument("--output", type=Path, help="write table.md and ratios.svg into this folder")
    arguments = parser.parse_args()
    if unknown := set(arguments.nets) - set(NETS):
        parser.error(f"there is no net {unknown.pop()!r}; there are {', '.join(NETS)}")
    names = contenders(arguments.contenders)
    results: dict[str, dict[str, list[dict[str, float]]]] = {}
    for net in arguments.nets or NETS:
        by = results[net] = defaultdict(list)
        given_up: set[str] = set()
        for _ in range(arguments.rounds):
            for name in names:
                if name in given_up:
                    continue
                if (found := measure(name, net, arguments.threads)) is None:
                    given_up.add(name)
                else:
                    by[name].append(found)
        print(f"{net}: " + ", ".join(f"{name} {statistics.median(r['ms'] for r in by[name]):.3g} ms"
                                     for name in names if by[name]), flush=True)
    text = table(results, names)
    print(text)
    if arguments.output is not None:
        arguments.output.mkdir(parents=True, exist_ok=True)
        (arguments.output / "table.md").write_text(text + "\n")
        plot(results, names, arguments.output / "ratios.svg")


if __name__ == "__main__":
    main()
