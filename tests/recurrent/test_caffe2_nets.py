"""Cells and layers come out as Caffe2's do, operator by operator, with their step nets and the gradients of these."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import recurrent_models

ANSWERS = {
    part.partition("\n")[0]: part.partition("\n")[2].splitlines()
    for part in (Path(__file__).parent / "caffe2_nets.txt").read_text().split("== ")[1:]
}


@pytest.mark.parametrize("name", recurrent_models.MODELS)
def test_model_has_the_nets_of_caffe2(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arguments that an operator does not know, as Caffe2's layers pass them
        assert recurrent_models.lines_of(name) == ANSWERS[name]
