"""The README keeps its word: its Python runs when pasted, and prints what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def blocks(section):
    """The Python of a section, pasted together, and the text that it is said to print."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL)
    return tuple("".join(body for kind, body in found if kind == wanted) for wanted in ("python", "text"))


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("section", ["A first net", "A Caffe2 script"])
def test_examples_run_as_they_stand(section, backend, tmp_path):
    program, printed = blocks(section)
    assert program and printed
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "NETGRAD_BACKEND": backend}, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed


def test_commands_that_are_named_exist():
    from netgrad.cli.commands import netgrad

    named = set(re.findall(r"^netgrad (\w+)", README, re.MULTILINE))
    assert len(named) >= 7
    assert named <= set(netgrad.list_commands(None))


def test_make_targets_that_are_named_exist():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_files_that_are_linked_exist():
    root = Path(__file__).parents[1]
    for link in re.findall(r"\]\(([\w./-]+)\)", README):
        assert (root / link).exists(), link
