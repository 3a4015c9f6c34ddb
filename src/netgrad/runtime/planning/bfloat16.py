"""The pass that computes products and convolutions in bfloat16: asked for, never by itself.

Blobs stay in single precision, parameters, sums and losses too; operands are rounded to 8 bits of mantissa on their way
into a product, which processors with such units compute several times as fast. The range is that of single precision,
so no loss needs scaling. Results are within a few parts in a thousand of the plain ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.runtime.planning.draft import Draft, Note
from netgrad.runtime.steps import Step

_NAME = "bfloat16"
_PRODUCTS = frozenset({
    "FC", "FCTransposed", "FCGradient", "MatMul", "BatchMatMul", "Conv", "Conv1D", "Conv2D", "Conv3D", "ConvGradient",
    "Conv1DGradient", "Conv2DGradient", "Conv3DGradient"})


class Lower:
    """A kernel whose operands are rounded to bfloat16, and whose results are in single precision again."""

    __slots__ = ("high", "kernel", "low")

    def __init__(self, kernel: Callable[..., Any], low: Any, high: Any) -> None:
        self.kernel = kernel
        self.low = low
        self.high = high

    def of(self, kernel: Callable[..., Any]) -> Lower:
        """The same around another kernel, in the wrapping that this one has."""
        inner = getattr(self.kernel, "of", None)
        return Lower(kernel if inner is None else inner(kernel), self.low, self.high)

    def __call__(self, *inputs: Any) -> Any:
        low, high = self.low, self.high
        given = [x for x in inputs if x is not None]
        if any(x.dtype is not high for x in given):
            return self.kernel(*inputs)
        results = self.kernel(*(x if x is None else x.to(low) for x in inputs))
        if isinstance(results, tuple):
            return tuple(y.to(high) if y is not None and y.dtype is low else y for y in results)
        return results.to(high) if results.dtype is low else results


def apply(draft: Draft) -> None:
    """Wraps the kernels of products."""
    if draft.backend.name != "torch":
        return
    import torch

    touched = []
    for position in range(len(draft.entries)):
        step = draft.plain(position)
        if step is None or step.binding.type not in _PRODUCTS:
            continue
        own = Step(step.binding, step.backend, draft.workspace)
        wrapped: Any = Lower(step.kernel, torch.bfloat16, torch.float32)
        own.kernel = own.host_call = wrapped
        draft.entries[position] = own
        touched.append(position)
    if touched:
        draft.notes.append(Note(_NAME, tuple(touched), f"{len(touched)} products and convolutions in bfloat16"))
