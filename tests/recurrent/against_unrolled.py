"""Compares a net of recurrent networks, and its gradients, with the net written out and with finite differences."""

from __future__ import annotations

import random

import numpy as np

from caffe2.python import core
from netgrad.runtime.workspace import Workspace
from netgrad.tools.unroll import unroll


def add_loss(net, outputs, rng, feeds):
    terms = []
    for k, (output, shape) in enumerate(outputs):
        kind = np.float64 if all(v.dtype != np.float32 for v in feeds.values()) else np.float32
        feeds[f"weight_{k}"] = rng.standard_normal(shape).astype(kind)
        product = net.Mul([core.BlobReference(str(output)), f"weight_{k}"], f"weighted_{k}")
        terms.append(net.SumElements(product, f"term_{k}"))
    return net.Sum(terms, "loss") if len(terms) > 1 else net.Copy(terms, "loss")


def run(net, feeds, names, backend):
    workspace = Workspace(backend=backend)
    for name, value in feeds.items():
        workspace.feed_blob(name, value)
    workspace.run_net_once(net)
    return [workspace.fetch_blob(name) for name in names]


def close(found, expected, what):
    assert found.shape == expected.shape and found.dtype == expected.dtype, what
    tolerance = 1e-9 if found.dtype == np.float64 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=what)


def gradient(net, feeds, found, value, backend):
    """The gradient of a blob, dense."""
    if not isinstance(found, core.GradientSlice):
        return run(net, feeds, [found], backend)[0]
    dense = np.zeros_like(value)
    np.add.at(dense, *run(net, feeds, [found.indices, found.values], backend))
    return dense


def compare(net, outputs, feeds, rng, backend, check=()):
    """Values and gradients of a net equal those of the net written out, and finite differences."""
    plain = core.Net(unroll(net, feeds, backend=backend))
    expected = run(plain, feeds, outputs, backend)
    for name, found, value in zip(outputs, run(net, feeds, outputs, backend), expected):
        close(found, value, str(name))
    results = [(output, value.shape) for output, value in zip(outputs, expected)]
    maps = []
    for each in (net, plain):
        state = rng.bit_generator.state
        loss = add_loss(each, results, rng, feeds)
        maps.append(each.AddGradientOperators([loss], **({} if each is net else {"overwritten": "save"})))
        rng.bit_generator.state = state
    floats = [name for name, value in feeds.items() if value.dtype.kind == "f" and not name.startswith("weight_")
              and name in maps[1]]
    assert [name for name in floats if name not in maps[0]] == []
    ours = dict(zip(floats, run(net, feeds, [maps[0][name] for name in floats], backend)))
    theirs = {name: gradient(plain, feeds, maps[1][name], feeds[name], backend) for name in floats}
    for name in floats:
        close(ours[name], theirs[name], f"gradient of {name}")
    for name in [name for name in floats if name in check]:
        size, bound = (1e-6, 1e-5) if feeds[name].dtype == np.float64 else (1e-2, 1e-1)
        for index in random.Random(1).sample(list(np.ndindex(feeds[name].shape)), 2):
            losses = []
            for sign in (1, -1):
                moved = feeds[name].copy()
                moved[index] += sign * size
                losses.append(run(net, {**feeds, name: moved}, ["loss"], backend)[0])
            slope = (losses[0] - losses[1]) / 2 / size
            assert abs(slope - ours[name][index]) < bound * max(1, abs(slope)), f"gradient of {name}"
    return ours
