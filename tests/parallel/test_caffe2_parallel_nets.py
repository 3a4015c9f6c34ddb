"""The nets of models on several devices are Caffe2's, operator by operator (`parallel_nets.txt`, recorded there)."""

from __future__ import annotations

from pathlib import Path

import parallel_nets
import pytest

RECORDED = {part.split("\n", 1)[0]: part.rstrip("\n")
            for part in Path(__file__).with_name("parallel_nets.txt").read_text().split("# ")[1:]}


@pytest.mark.parametrize("name", parallel_nets.CASES)
def test_nets_are_caffe2s(name):
    assert parallel_nets.text(name).removeprefix("# ").splitlines() == RECORDED[name].splitlines()
