"""Images and recurrent cells: derivatives in every geometry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.numeric import check_gradient, evaluate
from netgrad.runtime.workspace import Workspace


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


BORDERS = {"pad_t": 1, "pad_l": 2, "pad_b": 0, "pad_r": 1}


@pytest.mark.parametrize(("type", "X", "arguments"), [
    ("PadImage", (2, 2, 3, 4), {**BORDERS, "mode": "constant", "value": 2.0}),
    ("PadImage", (2, 2, 3, 4), {**BORDERS, "mode": "edge"}), ("PadImage", (2, 2, 3, 4), {**BORDERS, "mode": "reflect"}),
    ("PadImage", (2, 3, 4, 2), {"pad": 2, "mode": "reflect", "order": "NHWC"}),
    ("ResizeNearest", (1, 2, 3, 4), {"height_scale": 1.7, "width_scale": 0.5}),
    ("ResizeNearest", (1, 3, 4, 2), {"height_scale": 2.0, "width_scale": 2.0, "order": "NHWC"}),
    ("ResizeNearest3D", (1, 2, 2, 3, 2), {"temporal_scale": 2.0, "height_scale": 1.5, "width_scale": 1.0}),
    ("UpsampleBilinear", (1, 2, 3, 4), {"height_scale": 1.7, "width_scale": 2.0}),
    ("UpsampleNearest", (1, 2, 3, 2), {"scale": 3}), ("IntegralImage", (1, 2, 3, 4), {}),
    ("IntegralImage", (0, 2, 3, 4), {}), ("GroupSpatialSoftmax", (2, 6, 2, 2), {"num_classes": 3}),
])
def test_derivative(type: str, X: tuple[int, ...], arguments: dict[str, Any]) -> None:
    check_gradient(operator(type, ["X"], ["Y"], **arguments), {"X": numbers(*X)})


@pytest.mark.parametrize("type", ["ResizeNearest", "UpsampleBilinear"])
def test_derivative_with_scales_from_a_blob(type: str) -> None:
    feeds = {"X": numbers(1, 2, 3, 4), "scales": np.array([1.5, 2.0], np.float32)}
    check_gradient(operator(type, ["X", "scales"], ["Y"]), feeds, wrt=["X"])


def test_derivative_of_narrowing() -> None:
    check_gradient(operator("SpatialNarrowAs", ["A", "B"], ["C"]), {"A": numbers(1, 2, 3, 4), "B": numbers(1, 1, 2, 3)},
                   wrt=["A"])


def test_derivative_of_smooth_loss() -> None:
    feeds = {f"X{k}": numbers(3, 4, seed=k) for k in range(4)}
    check_gradient(operator("SmoothL1Loss", list(feeds), ["loss"], beta=0.5, scale=2.0), feeds, wrt=["X0"])


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_noise_of_a_stylized_image_repeats_and_stays(backend: str) -> None:
    stylize = operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["image", "mean"], ["Y"], noise_size=400,
                       noise_std=3.0)
    workspace = Workspace(backend=backend)
    workspace.feed_blob("image", np.full((1, 20, 20, 4), 7, np.uint8))
    workspace.feed_blob("mean", np.array([1, 2, 3], np.float32))
    net = workspace.create_net(caffe2_pb2.NetDef(name="stylizer", op=[stylize]))
    net.run()
    first = workspace.fetch_blob("Y")
    net.run()
    np.testing.assert_array_equal(workspace.fetch_blob("Y"), first)
    noise = first[0] - np.array([6, 5, 4]).reshape(3, 1, 1)
    np.testing.assert_allclose(noise, np.broadcast_to(noise[:1], noise.shape), atol=1e-5)
    assert abs(noise.mean()) < 1
    assert 2 < noise.std() < 4


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_the_stylizer_undone(backend: str) -> None:
    image = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 4), dtype=np.uint8)
    mean = np.array([1, 2, 3], np.float32)
    ops = [operator("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", ["image", "mean"], ["Y"], noise_std=0.0),
           operator("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", ["Y", "mean"], ["back"])]
    back = evaluate(ops, {"image": image, "mean": mean}, backend=backend)["back"]
    np.testing.assert_array_equal(back[..., :3], image[..., :3])
