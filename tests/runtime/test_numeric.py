"""The gradient check finds what is wrong, accepts what is right, and skips nothing."""

from __future__ import annotations

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.graph import registry
from netgrad.runtime import backends
from netgrad.runtime.numeric import GradientMismatch, check_gradient, evaluate


def with_gradient_kernel(replacement):
    """Gives TAffine's gradient operator another kernel, for the test that runs."""

    class Replaced(registry.find("TAffineGradient")):
        type = "TAffineGradient"
        kernel = replacement


X = np.array([[0.5, -1.0], [2.0, 3.0]])


def test_evaluate_runs_operators_and_returns_what_they_write(backend):
    ops = [op("TAffine", "x", "y", scale=2.0), op("TAffine", "y", "z", scale=3.0)]
    found = evaluate(ops, {"x": X}, backend=backend)
    assert set(found) == {"y", "z"}
    np.testing.assert_array_equal(found["z"], X * 6)


def test_a_right_gradient_passes_and_is_returned(backend):
    gradients = check_gradient(op("TAffine", "x", "y", scale=-2.0), {"x": X.astype(np.float32)}, backend=backend)
    assert gradients["x"].shape == (2, 2) and gradients["x"].dtype == np.float64


def test_a_wrong_gradient_is_reported_with_blob_index_and_both_numbers(backend):
    with pytest.raises(GradientMismatch) as caught:
        check_gradient(op("TWrongRule", "x", "y"), {"x": X}, backend=backend)
    message = str(caught.value)  # at 0.5 the rule happens to be right
    assert f"TWrongRule on {backend}: 3 entries" in message
    assert "dx[1, 1] is" in message and "finite differences give" in message


def test_a_gradient_that_is_wrong_in_one_entry_only_is_found(backend):
    with pytest.raises(GradientMismatch, match=r"1 entries.*\n.*dx.1. "):
        check_gradient(op("TWrongRule", "x", "y"), {"x": np.array([0.5, 0.25])}, backend=backend)


def test_every_installed_backend_is_checked_unless_one_is_named():
    seen = []

    def spying(xp, dY, *, scale):
        seen.append(repr(xp))
        return dY * scale

    with_gradient_kernel(spying)
    check_gradient(op("TAffine", "x", "y", scale=2.0), {"x": X})
    assert len(set(seen)) == len(backends.available())


def test_a_blob_without_gradient_must_have_derivative_zero(backend):
    with pytest.raises(GradientMismatch, match=r"dx.* is 0, finite differences give"):
        check_gradient(op("TNoFlow", "x", "y"), {"x": X}, backend=backend)


def test_in_place_operators_and_chains_are_checked_by_the_first_value(backend):
    check_gradient([op("TAffine", "x", "x", scale=2.0), op("TAffine", "x", "y", scale=3.0)], {"x": X}, backend=backend)


def test_whole_nets_are_checked_with_named_outputs(backend):
    whole = net("n", op("TAffine", "x", "y", scale=2.0), op("TAffine", "y", "z", scale=3.0))
    np.testing.assert_allclose(np.abs(check_gradient(whole, {"x": X}, ["y"], backend=backend)["x"])
                               / np.abs(check_gradient(whole, {"x": X}, ["z"], backend=backend)["x"]), 1 / 3)


def test_integers_are_not_differentiated_and_nothing_to_check_is_an_error(backend):
    with pytest.raises(ValueError, match=r"nothing to check"):
        check_gradient(op("TAffine", "x", "y"), {"x": np.arange(3)}, backend=backend)
    with pytest.raises(ValueError, match=r"z: not a floating-point tensor"):
        check_gradient(op("TAffine", "x", "y"), {"x": X}, wrt=["x", "z"], backend=backend)


def test_a_gradient_of_another_dtype_or_shape_than_its_blob_is_reported(backend):
    with_gradient_kernel(lambda xp, dY, *, scale: xp.astype(dY, xp.float32))
    with pytest.raises(GradientMismatch, match=r"float32 .2, 2.; x is float64"):
        check_gradient(op("TAffine", "x", "y"), {"x": X}, backend=backend)
    with_gradient_kernel(lambda xp, dY, *, scale: dY[:1])
    with pytest.raises(GradientMismatch, match=r"float64 .1, 2.; x is float64 .2, 2."):
        check_gradient(op("TAffine", "x", "y"), {"x": X}, backend=backend)


def test_at_a_kink_any_subgradient_is_accepted_when_asked_for(backend):
    feeds = {"x": np.array([0.0, 1.0])}
    with pytest.raises(GradientMismatch, match=r"dx.0. "):
        check_gradient(op("Relu", "x", "y"), feeds, backend=backend)
    check_gradient(op("Relu", "x", "y"), feeds, backend=backend, subgradient=True)
    with pytest.raises(GradientMismatch):
        check_gradient(op("TWrongRule", "x", "y"), feeds, backend=backend, subgradient=True)


def test_points_near_a_kink_are_checked_with_small_steps(backend):
    check_gradient(op("Relu", "x", "y"), {"x": np.array([1e-4, -1e-4])}, backend=backend)
