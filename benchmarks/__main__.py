"""`python -m benchmarks [NET ...]`: training steps here and elsewhere, as ratios within one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import reporting
from benchmarks.measuring import Results, measure
from benchmarks.rivals import CONTENDERS, OURS, chosen, takes_part

NETS = ("mlp", "lenet", "resnet50", "lstm", "dlrm", "transformer", "video", "wide", "tiny")
README = Path(__file__).parent / "README.md"


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(
        "Trains nets here and elsewhere, each contender in a process of its own, a round each in turn; prints a table "
        "of ratios (below 1: faster here), peak memory and time of planning."))
    parser.add_argument("nets", nargs="*", metavar="NET", help=f"which; all unless named: {', '.join(NETS)}")
    parser.add_argument("--rivals", default="", metavar="NAMES", help=(
        f"which, separated by commas: {', '.join(n for n in CONTENDERS if n != OURS)}; the usual ones unless named"))
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which compiles for minutes")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="of each contender (2)")
    parser.add_argument("--repeat", type=int, default=0, metavar="N", help="rounds of each net (9; 2 with --quick)")
    parser.add_argument("--quick", action="store_true", help="small nets, to see that all runs; the ratios say nothing")
    parser.add_argument("--processor-time", action="store_true", help=(
        "time that threads spent computing, not time that passed: for a busy machine, with --threads 1"))
    parser.add_argument("--table", type=Path, metavar="FILE", help=(
        "write the table there; into benchmarks/README.md unless given, if all nets were measured"))
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios there; needs matplotlib")
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.nets if name not in NETS]:
        parser.error(f"there is no net {unknown[0]!r}; there are {', '.join(NETS)}")
    if arguments.threads < 1 or arguments.repeat < 0:
        parser.error("--threads and --repeat take whole numbers from 1")
    arguments.named = [name for name in arguments.rivals.split(",") if name]
    try:
        arguments.contenders = chosen(arguments.named, arguments.compile)
    except ValueError as error:
        parser.error(str(error))
    return arguments


def main(words: list[str] | None = None) -> int:
    arguments = _arguments(words)
    rounds = arguments.repeat or (2 if arguments.quick else 9)
    results: Results = {}
    for net in arguments.nets or NETS:
        present = [c for c in arguments.contenders if takes_part(c, net, arguments.named)]
        by = results[net] = measure(net, present, rounds, arguments.threads, arguments.quick, _progress,
                                    arguments.processor_time)
        _progress("")
        print(f"{net}: " + ", ".join(f"{name} {found.median:.3g} ms" if found.ms else f"{name} failed"
                                     for name, found in by.items()), flush=True)
    text = reporting.table(results)
    print(text)
    for sentence in reporting.left_out(results):
        print(sentence, file=sys.stderr)
    path = arguments.table
    if path is None and not arguments.nets and not arguments.quick:
        path = README
    if path is not None:
        reporting.write_table(text, path)
    if arguments.plot is not None:
        reporting.plot(results, arguments.plot)
    return 0 if all(by[OURS].ms for by in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
