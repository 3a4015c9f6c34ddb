"""Functions of a net refuse what is none, and say how a net comes out of a file."""

from pathlib import Path

import numpy as np
import pytest

import netgrad

FUNCTIONS = {
    "show": netgrad.show, "verify": netgrad.verify, "check": netgrad.check,
    "explain": lambda net: netgrad.explain(net, "x"), "save": lambda net: netgrad.save(net, "out.pb"),
}
every_function = pytest.mark.parametrize("call", FUNCTIONS.values(), ids=FUNCTIONS)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@every_function
@pytest.mark.parametrize("path", ["train.pb", Path("train.pb")])
def test_a_path_is_told_that_load_reads_it(call, path):
    with pytest.raises(TypeError, match=r"expected a Net or a NetDef, found 'train.pb'.*netgrad\.load"):
        call(path)
    assert not Path("out.pb").exists()


@every_function
@pytest.mark.parametrize("other", [None, 3, b"net", [1], np.ones(2), netgrad.Net])
def test_anything_else_is_told_its_type(call, other):
    with pytest.raises(TypeError, match=f"expected a Net or a NetDef, found an object of type {type(other).__name__}"):
        call(other)
    assert not Path("out.pb").exists()


@every_function
def test_nets_and_their_messages_pass(call, capsys):
    net = netgrad.Net("net")
    net.Relu("x", "y")
    call(net)
    call(net.Proto())


def test_vectors_of_a_hessian_are_a_mapping():
    net = netgrad.Net("net")
    net.SumElements(net.Sqr("x", "y"), "loss")
    for wrong in ("x", ["x"], None):
        with pytest.raises(TypeError, match="vectors maps each blob to the blob that holds its vector"):
            netgrad.hessian_vector(net, "loss", wrong)
    assert len(net.Proto().op) == 2
