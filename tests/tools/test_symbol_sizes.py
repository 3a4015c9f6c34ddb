"""Symbols grouped by how their names begin."""

from __future__ import annotations

import sys

import pytest

from caffe2.python import binarysize


def test_symbols_are_grouped_by_their_beginnings(tmp_path, capsys):
    nm = tmp_path / "nm"
    nm.write_text(f"#!{sys.executable}\nprint('0 0000900 T foo_a\\n0 0000100 T foo_b\\n0 0000050 T bar\\n0 T none')\n")
    nm.chmod(0o755)
    binarysize.main(["--target", "any", "--nm_command", str(nm), "--min_size", "60", "--max_depth", "20"])
    assert capsys.readouterr().out == " 1.03KB\n |foo_ 1000.00B\n | |foo_a 900.00B\n | |foo_b 100.00B\n"


def test_what_cannot_be_read_ends_the_command(tmp_path):
    with pytest.raises(SystemExit, match="cannot be run"):
        binarysize.main(["--target", "x", "--nm_command", str(tmp_path / "missing")])
    failing = tmp_path / "nm"
    failing.write_text("#!/bin/sh\necho no such file >&2\nexit 1\n")
    failing.chmod(0o755)
    with pytest.raises(SystemExit, match="failed: no such file"):
        binarysize.main(["--target", "x", "--nm_command", str(failing)])


def test_sizes_are_readable():
    sizes = {12: "12.00B", 2048: "2.00KB", 3 * 2**20: "3.00MB", 2**42: "4.0 TB"}
    assert {size: binarysize.ReadableSize(size) for size in sizes} == sizes
