"""Products with the Hessian of a random program: by its own second pass, and by that of the program unrolled."""

from __future__ import annotations

from typing import Any

import numpy as np

import netgrad
from netgrad.graph.net import Net
from netgrad.runtime.numeric import evaluate
from netgrad.tools.unroll import unroll


def check(program: Any, seed: int) -> str:
    """Compares both; "runs off" where values are too large to compare."""
    flat = unroll(program.net.Proto(), program.feeds, backend="numpy")
    values = evaluate(flat, program.feeds, None, "numpy").values()
    if not all(np.all(np.abs(value) < 1e3) for value in values if value.dtype.kind == "f"):
        return "runs off"
    rng = np.random.default_rng(seed)
    feeds = {**program.feeds, **{f"{x}_v": rng.uniform(-1, 1, program.feeds[x].shape) for x in program.parameters}}
    found = []
    for ops, backend in ((program.net.Proto().op, "torch" if seed % 2 else "numpy"), (flat.op, "numpy")):
        net = Net("program")
        net.Proto().op.extend(ops)
        products = netgrad.hessian_vector(net, program.y, {x: f"{x}_v" for x in program.parameters})
        after = evaluate(net, feeds, None, backend)
        found.append([after[str(products[x])] for x in program.parameters])
    for x, ours, theirs in zip(program.parameters, *found):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8, err_msg=f"seed {seed}, {x}")
    return "right"
