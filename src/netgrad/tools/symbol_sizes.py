"""How much of a compiled program or library each group of symbols takes: ``python -m caffe2.python.binarysize``.

Symbols (from ``nm``) are grouped by how their names begin, and printed as a tree.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence


class Trie:
    """All names that begin alike.

    Attributes:
        name: how they begin.
        size: bytes of all of them.
        dictionary: next character -> those that go on with it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.size = 0
        self.dictionary: dict[str, Trie] = {}


def GetSymbolTrie(target: str, nm_command: str, max_depth: int) -> Trie:
    """The tree of the symbols of a file, by up to ``max_depth`` characters; ends the program where there is no nm."""
    listing = _output([nm_command, "--radix=d", "--size-sort", "--print-size", target])
    if shutil.which("c++filt"):
        listing = _output(["c++filt"], listing)
    fields = (line.split(" ", 3) for line in listing.splitlines())
    return _grouped(((int(found[1]), found[3]) for found in fields if len(found) == 4 and found[1].isdecimal()),
                    max_depth)


def _output(command: Sequence[str], text: str | None = None) -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise SystemExit(f"{command[0]} cannot be run: {error.strerror}; --nm_command names another") from None
    if done.returncode:
        raise SystemExit(f"{command[0]} failed: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _grouped(symbols: Iterable[tuple[int, str]], max_depth: int) -> Trie:
    root = Trie("")
    for size, name in symbols:
        root.size += size
        node = root
        for letter in name[:max_depth]:
            node = node.dictionary.setdefault(letter, Trie(node.name + letter))
            node.size += size
    return root


def MaybeAddColor(s: str, color: bool) -> str:
    """The text, in green if wanted."""
    return f"\033[92m{s}\033[0m" if color else s


def ReadableSize(num: float) -> str:
    """Bytes in the unit that suits their number."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(num) <= 1024:
            return f"{num:.2f}{unit}"
        num /= 1024
    return f"{num:.1f} TB"


def PrintTrie(trie: Trie, prefix: str, max_depth: int, min_size: int, color: bool) -> None:
    """Prints groups of more than ``min_size`` bytes, the largest first; what does not branch takes one line."""
    pending = [(trie, prefix)]
    while pending:
        node, before = pending.pop()
        while len(node.dictionary) == 1 and len(node.name) < max_depth:
            (node,) = node.dictionary.values()
        if node.size > min_size:
            print(f"{before}{MaybeAddColor(node.name, color)} {ReadableSize(node.size)}")
            if len(node.name) < max_depth:
                below = sorted(node.dictionary.values(), key=lambda child: child.size)
                pending.extend((child, f"{before} |") for child in below)


def main(argv: Sequence[str]) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Which symbols make a compiled file as large as it is.")
    parser.add_argument("--target", required=True, help="the program or library")
    parser.add_argument("--max_depth", type=int, default=10, help="characters by which names are grouped")
    parser.add_argument("--min_size", type=int, default=1024, help="bytes of the smallest group that is printed")
    parser.add_argument("--nm_command", default="nm", help="the command nm")
    parser.add_argument("--color", action="store_true", help="names in green")
    found = parser.parse_args(argv)
    PrintTrie(GetSymbolTrie(found.target, found.nm_command, found.max_depth), "", found.max_depth, found.min_size,
              found.color)


if __name__ == "__main__":
    main(sys.argv[1:])
