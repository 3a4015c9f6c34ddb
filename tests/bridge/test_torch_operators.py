"""``torch.ops._caffe2``: signatures, numbers, aliases, outputs that were given, and when it is registered."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

import caffe2.python  # noqa: F401 (registers them)
from netgrad.bridge.torch_operators import SIGNATURES, run_operator
from netgrad.graph import registry
from netgrad.runtime.errors import OperatorError

NAMES = [line.partition("(")[0] for line in SIGNATURES.split("\n") if line]


@pytest.mark.parametrize("name", NAMES)
def test_each_is_registered_with_parameters_that_its_declaration_knows(name: str) -> None:
    schema = torch._C._get_schema(f"_caffe2::{name}", "")
    declaration = registry.find(name)
    assert schema.arguments[-1].name == "_caffe2_preallocated_outputs"
    arguments = [a.name for a in schema.arguments if "Tensor" not in str(a.type)]
    prefixes = declaration.argument_prefixes
    unknown = [a for a in arguments if a not in declaration.argument_table and not a.startswith(prefixes or "\0")]
    assert not unknown
    tensors = sum("Tensor" in str(a.type) for a in schema.arguments) - 1
    if not any("List" in str(a.type) for a in schema.arguments[:-1] if "Tensor" in str(a.type)):
        assert tensors in declaration.num_inputs
    if str(schema.returns[0].type) == "Tensor":
        assert len(schema.returns) in declaration.num_outputs


def test_arguments_by_position_and_name_and_by_default() -> None:
    x = torch.tensor([0.2, 0.7])
    expected = torch.logit(x, 1e-6)
    for found in (torch.ops._caffe2.Logit(x), torch.ops._caffe2.Logit(x, 1e-6), torch.ops._caffe2.Logit(X=x, eps=1e-6)):
        torch.testing.assert_close(found, expected)
    rate = torch.ops._caffe2.LearningRate(torch.tensor([3]), base_lr=0.1, policy="step", gamma=0.5, stepsize=1)
    assert float(rate) == pytest.approx(0.0125)


def test_optional_tensors_and_outputs() -> None:
    X = torch.rand(2, 3)
    y, mean, std = torch.ops._caffe2.LayerNorm(X, None, None, 1, 1e-5)
    torch.testing.assert_close(y, torch.nn.functional.layer_norm(X, (3,)), rtol=1e-4, atol=1e-4)
    assert mean.shape == std.shape == (2, 1)
    lengths, rows = torch.tensor([2, 1], dtype=torch.int32), torch.rand(3, 2)
    assert torch.ops._caffe2.PackSegments(lengths, rows)[1] is None
    assert torch.ops._caffe2.PackSegments(lengths, rows, return_presence_mask=True)[1].tolist() == [[1, 1], [1, 0]]


def test_a_list_of_outputs_one_for_each_range() -> None:
    ranges = torch.tensor([[[2, 2], [0, 1]], [[0, 2], [3, 1]]])
    found = torch.ops._caffe2.GatherRangesToDense(torch.arange(8), ranges, None, [2, 1], 1, 0.5, 1.0)
    assert [f.tolist() for f in found] == [[[2, 3], [0, 1]], [[0], [3]]]


def test_scripted_functions_call_them() -> None:
    def function(x: torch.Tensor, fast: bool) -> torch.Tensor:
        return torch.ops._caffe2.Gelu(x, fast)

    x = torch.randn(5)
    torch.testing.assert_close(torch.jit.script(function)(x, False), torch.nn.functional.gelu(x))


def test_the_alias_shares_its_storage_and_results_take_no_part_in_autograd() -> None:
    x = torch.tensor([3.0, 42.0], requires_grad=True)
    y = torch.ops._caffe2.AliasWithName(x, "another")
    assert not y.requires_grad
    with torch.no_grad():
        x[1] = 6
    assert y.tolist() == [3, 6]


def test_tensors_that_are_not_contiguous() -> None:
    X = torch.rand(3, 4).T
    torch.testing.assert_close(torch.ops._caffe2.LengthsSum(X, torch.tensor([1, 3], dtype=torch.int32)),
                               torch.stack([X[0], X[1:].sum(0)]))


def test_results_go_into_tensors_that_were_given() -> None:
    x, into = torch.randn(3), torch.zeros(1)
    found = torch.ops._caffe2.Gelu(x, False, [into])
    torch.testing.assert_close(into, torch.nn.functional.gelu(x))
    assert found.data_ptr() == into.data_ptr()
    with pytest.raises(ValueError, match="has 1 outputs, and 2 tensors"):
        torch.ops._caffe2.Gelu(x, False, [into, into])


def test_bad_input_is_one_error_that_names_the_operator() -> None:
    with pytest.raises(OperatorError, match="LengthsSum"):
        torch.ops._caffe2.LengthsSum(torch.rand(3, 2), torch.tensor([5], dtype=torch.int32))


def test_scopes_do_not_reach_into_them() -> None:
    from caffe2.python import core

    with core.NameScope("scope"), core.DeviceScope(core.DeviceOption(0)):
        found, = run_operator("Gelu", [torch.zeros(2)], {}, 1)
    np.testing.assert_array_equal(found, [0, 0])


@pytest.mark.parametrize("order", ["import torch, caffe2.python", "import caffe2.python, torch"])
def test_they_are_there_whichever_is_imported_first(order: str) -> None:
    code = f"{order}; import torch; print(torch.ops._caffe2.Gelu(torch.zeros(1)).item(), torch.__spec__.origin)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split()[0] == "0.0", done.stderr
