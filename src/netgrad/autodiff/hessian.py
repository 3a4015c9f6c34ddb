"""Products of a Hessian with vectors, as operators of the net: the derivative of its derivative."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.graph.blob import BlobReference


def hessian_vector(net: Any, of: Any, vectors: Mapping[Any, Any], overwritten: str = "save") -> dict[str, Any]:
    """See `netgrad.hessian_vector`."""
    from netgrad.autodiff.errors import NoGradientError

    by = {str(blob): str(vector) for blob, vector in vectors.items()}
    if not by:
        raise ValueError("vectors is empty: give the blobs by which is differentiated, each with that of its vector")
    gradients = net.AddGradientOperators(of, wrt=list(by), overwritten=overwritten)
    given: dict[str, list[str]] = {}
    for blob, vector in by.items():
        try:
            gradient = gradients[blob]
        except NoGradientError:
            continue  # what is differentiated does not depend on it
        given.setdefault(_dense(net, blob, gradient), []).append(vector)
    ys = {gradient: _sum(net, gradient, parts) for gradient, parts in given.items()}
    again = net.AddGradientOperators(ys, wrt=list(by), overwritten=overwritten) if ys else {}
    return {blob: BlobReference(_dense(net, blob, again[blob]) if blob in again else _zeros(net, blob), net)
            for blob in by}


def _dense(net: Any, blob: str, gradient: Any) -> str:
    """A gradient as one tensor, also where only rows of a table have one."""
    if not hasattr(gradient, "indices"):
        return str(gradient)
    return str(net.SparseToDense([gradient.indices, gradient.values, blob], net.NextName(f"{blob}_dense_gradient")))


def _sum(net: Any, gradient: str, vectors: list[str]) -> str:
    """The vector of a gradient that several blobs share (the terms of a Sum)."""
    return vectors[0] if len(vectors) == 1 else str(net.Sum(vectors, net.NextName(f"{gradient}_vectors")))


def _zeros(net: Any, blob: str) -> str:
    return str(net.ConstantFill(blob, net.NextName(f"{blob}_zeros"), value=0.0))
