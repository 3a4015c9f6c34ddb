"""The pass that lets the channels of images lie side by side within convolution nets, on the CPU with torch.

oneDNN computes such convolutions best, and every kernel of torch makes its output in the layout of its input. So it is
enough to lay out what convolutions read: the data at the border, the rest already is as it should be. Shapes and values
are the same as ever; a fetched array is laid out as NumPy does it. Weights get the layout of their gradients when they
are updated in place (`netgrad.runtime.planning.updates`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.runtime.planning.draft import Draft, Note
from netgrad.runtime.steps import Step

_NAME = "layout"
#: operator -> the inputs that are images
_IMAGES = {**dict.fromkeys(("Conv", "Conv2D"), (0,)), **dict.fromkeys(("ConvGradient", "Conv2DGradient"), (0, 2))}


class Kept:
    """The last images that were laid out anew, for whoever reads the same ones again."""

    __slots__ = ("laid_out", "source")

    def __init__(self) -> None:
        self.source: Any = None
        self.laid_out: Any = None


class ChannelsLast:
    """A kernel whose images are laid out with their channels side by side first."""

    __slots__ = ("images", "kept", "kernel", "last_use", "lay_out")

    def __init__(self, kernel: Callable[..., Any], images: tuple[int, ...], lay_out: Callable[[Any], Any], kept: Kept,
                 last_use: bool) -> None:
        self.kernel = kernel
        self.images = images
        self.lay_out = lay_out
        self.kept = kept
        self.last_use = last_use

    def of(self, kernel: Callable[..., Any]) -> ChannelsLast:
        """Another kernel on the same images."""
        return ChannelsLast(kernel, self.images, self.lay_out, self.kept, self.last_use)

    def __call__(self, *inputs: Any) -> Any:
        given = list(inputs)
        kept = self.kept
        for k in self.images:
            source = given[k]
            if k == 0 and kept.source is source:
                given[k] = kept.laid_out
            else:
                given[k] = self.lay_out(source)
                if k == 0 and given[k] is not source and not self.last_use:
                    kept.source, kept.laid_out = source, given[k]
        if self.last_use:
            kept.source = kept.laid_out = None
        return self.kernel(*given)


def apply(draft: Draft) -> None:
    """Wraps the kernels of convolutions of images."""
    if draft.backend.name != "torch":
        return
    from netgrad.runtime.backends.torch.layouts import channels_last

    kept: dict[str, Kept] = {}
    touched = []
    for position in range(len(draft.entries)):
        step = draft.plain(position)
        if step is None or not _is_of_images(step):
            continue
        own = Step(step.binding, step.backend, draft.workspace)
        gradient = step.binding.type.endswith("Gradient")
        shared = kept.setdefault(step.inputs[0], Kept()) if _read_again(draft, position) or gradient else Kept()
        wrapped: Any = ChannelsLast(own.kernel, _IMAGES[step.binding.type], channels_last, shared,
                                    gradient or not _read_again(draft, position))
        own.kernel = own.host_call = wrapped
        draft.entries[position] = own
        touched.append(position)
    if touched:
        draft.notes.append(Note(_NAME, tuple(touched), f"channels side by side in {len(touched)} convolutions"))


def _is_of_images(step: Step) -> bool:
    binding = step.binding
    arguments = binding.arguments
    return (binding.type in _IMAGES and arguments.get("order") == "NCHW" and arguments.get("group") == 1
            and binding.definition.device_option.device_type == 0 and binding.kernel is not binding.reference)


def _read_again(draft: Draft, position: int) -> bool:
    """Whether a later gradient operator of this net reads the image that a convolution reads."""
    value = draft.liveness.reads[position][0]
    if value is None:
        return False
    return any(later > position and draft.plan.definition.op[later].type in ("ConvGradient", "Conv2DGradient")
               and draft.liveness.reads[later][0] is value for later in value.read)
