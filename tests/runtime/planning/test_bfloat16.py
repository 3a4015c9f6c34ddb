"""Products in bfloat16: near the plain ones, in single precision to all who look, and only when asked for."""

from __future__ import annotations

import numpy as np
import pytest
import test_channels_last as conv_nets
from runtime_nets import net, op

from netgrad.runtime.planning import planner

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("update", ["WeightedSum", "Adam"])
def test_a_training_net_is_near_the_plain_one_and_its_blobs_are_single(update):
    definition, feeds = conv_nets.conv_net(3, update), conv_nets.feeds(3)
    plain, low = (conv_nets.created(definition, feeds, passes) for passes in ("none", "+bfloat16"))
    differs = False
    for _ in range(3):
        plain.run_net("n")
        low.run_net("n")
    for name in plain.names():
        expected, found = plain.fetch_blob(name), low.fetch_blob(name)
        assert expected.dtype == found.dtype and expected.shape == found.shape
        if name in ("y0", "y1", "y2", "loss", "w0", "w1", "w2"):
            assert np.linalg.norm(found - expected) <= 0.03 * np.linalg.norm(expected) + 0.03, name
            differs |= not np.array_equal(found, expected)
    assert differs


def test_it_is_asked_for_and_leaves_other_types_alone(ws):
    if ws.backend.name != "torch":
        with planner.passes("bfloat16"):
            assert ws.create_net(net("n")).plan.notes == ()
        return
    x = np.array([[1.0, 1 / 3]])
    for dtype in ("float32", "float64"):
        ws.feed_blob("x", x.astype(dtype))
        ws.feed_blob("w", np.ones((1, 2), dtype))
        results = []
        for passes in ("all", "+bfloat16"):
            with planner.passes(passes):
                ws.create_net(net("n", op("MatMul", "x w", "y", trans_b=1)), overwrite=True)
            ws.run_net("n")
            results.append(ws.fetch_blob("y"))
        assert results[0].dtype == results[1].dtype == dtype
        assert (results[0] == results[1]) == (dtype == "float64")
        np.testing.assert_allclose(results[1], results[0], rtol=1e-2)
