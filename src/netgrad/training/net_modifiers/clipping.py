"""Clipping of gradients, one by one. (Of all of them together: ``max_gradient_norm`` of `build_sgd` and its like.)"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from netgrad.graph.blob import BlobReference
from netgrad.graph.device import CPU, DeviceOption
from netgrad.graph.operator import GradientSlice
from netgrad.graph.scope import DeviceScope
from netgrad.training.net_modifiers.base import NetModifier
from netgrad.training.optimizers.build import get_param_device


class GradientClipping(NetModifier):
    """Clips dense gradients, in place; sparse ones stay as they are.

    Args:
        grad_clip_method: ``"by_norm"`` scales a gradient down to a norm; ``"by_value"`` clips each of its elements.
        clip_norm_type: ``"l1_norm"`` or ``"l2_norm"``.
        clip_threshold: the largest norm that is let through.
        use_parameter_norm: the threshold is multiplied by the norm of the parameter.
        compute_norm_ratio: with it, also leaves the ratio of both norms in ``*_norm_ratio``, to look at.
        clip_max, clip_min: bounds of elements.
        blobs_to_include: the parameters whose gradients are clipped; None: all of ``grad_map``.
        blobs_to_exclude: parameters whose gradients are not.
    """

    L1_NORM = "l1_norm"
    L2_NORM = "l2_norm"
    BY_NORM = "by_norm"
    BY_VALUE = "by_value"
    GRAD_CLIP_METHODS: ClassVar[list[str]] = [BY_NORM, BY_VALUE]
    CLIP_GRADIENT_NORM_TYPES: ClassVar[list[str]] = [L2_NORM, L1_NORM]

    def __init__(
        self,
        grad_clip_method: str,
        clip_norm_type: str | None = "l2_norm",
        clip_threshold: float = 0.1,
        use_parameter_norm: bool = False,
        compute_norm_ratio: bool = False,
        clip_max: float = 1,
        clip_min: float = -1,
        blobs_to_include: Iterable[Any] | None = None,
        blobs_to_exclude: Iterable[Any] | None = None,
    ) -> None:
        if grad_clip_method not in self.GRAD_CLIP_METHODS:
            raise AssertionError(
                f"GradientClipping: grad_clip_method is one of {self.GRAD_CLIP_METHODS}, not {grad_clip_method!r}"
            )
        by_norm = grad_clip_method == self.BY_NORM
        if clip_norm_type not in self.CLIP_GRADIENT_NORM_TYPES and (by_norm or clip_norm_type is not None):
            raise AssertionError(
                f"GradientClipping: clip_norm_type is one of {self.CLIP_GRADIENT_NORM_TYPES}, not {clip_norm_type!r}"
            )
        self.grad_clip_method = grad_clip_method
        self.clip_norm_type = clip_norm_type
        self.clip_threshold = float(clip_threshold)
        self.use_parameter_norm = use_parameter_norm
        self.compute_norm_ratio = compute_norm_ratio
        self.clip_max = float(clip_max)
        self.clip_min = float(clip_min)
        self.blobs_to_include = blobs_to_include
        self.blobs_to_exclude = blobs_to_exclude

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[Any, Any] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        if grad_map is None:
            raise AssertionError(
                "GradientClipping: give grad_map=, parameter -> gradient, as AddGradientOperators has it"
            )
        for param, grad in self._chosen(net, grad_map).items():
            if isinstance(grad, GradientSlice):
                continue
            device = get_param_device(param, grad, param_to_device=blob_to_device, default_device=DeviceOption(CPU))
            with DeviceScope(device):
                if self.grad_clip_method == self.BY_VALUE:
                    net.Clip([grad], [grad], max=self.clip_max, min=self.clip_min)
                else:
                    self._clip_by_norm(net, param, grad)

    def _chosen(self, net: Any, grad_map: Mapping[Any, Any]) -> dict[str, Any]:
        gradients = {str(param): grad for param, grad in grad_map.items()}
        if self.blobs_to_include is not None:
            included = [str(blob) for blob in self.blobs_to_include]
            for name in included:
                if not net.BlobIsDefined(name):
                    raise ValueError(f"GradientClipping: parameter {name!r} is not defined in net {net.Name()!r}")
                if name not in gradients:
                    raise KeyError(f"GradientClipping: parameter {name!r} has no gradient in grad_map")
            gradients = {name: gradients[name] for name in included}
        excluded = {str(blob) for blob in self.blobs_to_exclude or ()}
        return {name: grad for name, grad in gradients.items() if name not in excluded}

    def _clip_by_norm(self, net: Any, param: str, grad: BlobReference) -> None:
        norm = self._norm(net, grad)
        norms = [norm]
        if self.use_parameter_norm:
            norms.append(self._norm(net, param))
            if self.compute_norm_ratio:
                net.Div(norms, [net.NextScopedBlob(param + "_norm_ratio")])
        net.ClipTensorByScaling([grad, *norms], [grad], threshold=self.clip_threshold)

    def _norm(self, net: Any, blob: Any) -> Any:
        p = 2 if self.clip_norm_type == self.L2_NORM else 1
        norm = net.LpNorm([blob], net.NextScopedBlob(f"{blob}_l{p}_norm"), p=p)
        return net.Pow([norm], exponent=0.5) if p == 2 else norm
