"""`build_sgd` and its like: one optimizer for all parameters of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from netgrad.graph.device import CPU, DeviceOption
from netgrad.graph.operator import GradientSlice
from netgrad.graph.scope import DeviceScope, NameScope
from netgrad.training.optimizers.adagrad import AdagradOptimizer
from netgrad.training.optimizers.adam import AdamOptimizer
from netgrad.training.optimizers.adaptive import AdadeltaOptimizer, RmsPropOptimizer, StormOptimizer, WngradOptimizer
from netgrad.training.optimizers.base import Optimizer
from netgrad.training.optimizers.ftrl import FtrlOptimizer, GFtrlOptimizer
from netgrad.training.optimizers.half import FP16SgdOptimizer, MultiPrecisionSgdOptimizer
from netgrad.training.optimizers.sgd import SgdOptimizer, WeightDecayBuilder
from netgrad.training.optimizers.yellowfin import YellowFinOptimizer
from netgrad.training.parameters import ParameterInfo

AnyOptimizer = TypeVar("AnyOptimizer", bound=Optimizer)

_LEARNING_RATE_INJECTION = "lr_injection"


class NoParametersError(ValueError):
    """A model has nothing to optimize."""


def build_sgd(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> SgdOptimizer:
    """Optimizes a model by `SgdOptimizer`, which takes the further arguments.

    Args:
        max_gradient_norm: the norm of all gradients together is held to at most this.
        allow_lr_injection: the rate is multiplied by the blob that `set_lr_injection` sets.

    Raises:
        NoParametersError: there is nothing to optimize.
    """
    return _build(model, SgdOptimizer(base_learning_rate, **kwargs), **_rate(max_gradient_norm, allow_lr_injection))


def build_multi_precision_sgd(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> MultiPrecisionSgdOptimizer:
    """Like `build_sgd`, by `MultiPrecisionSgdOptimizer`."""
    optimizer = MultiPrecisionSgdOptimizer(base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_fp16_sgd(model: Any, base_learning_rate: float, **kwargs: Any) -> FP16SgdOptimizer:
    """Optimizes a model by `FP16SgdOptimizer`, which takes the further arguments."""
    return _build(model, FP16SgdOptimizer(base_learning_rate, **kwargs))


def build_ftrl(model: Any, engine: str | None = "", **kwargs: Any) -> FtrlOptimizer:
    """Optimizes a model by `FtrlOptimizer`, which takes the further arguments; the rate is ``alpha``."""
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))


def build_gftrl(model: Any, engine: str | None = "", **kwargs: Any) -> GFtrlOptimizer:
    """Optimizes a model by `GFtrlOptimizer`, which takes the further arguments; the rate is ``alpha``."""
    return _build(model, GFtrlOptimizer(engine=engine, **kwargs))


def build_yellowfin(model: Any, base_learning_rate: float = 0.1, **kwargs: Any) -> YellowFinOptimizer:
    """Optimizes a model by `YellowFinOptimizer`, which takes the further arguments."""
    return _build(model, YellowFinOptimizer(alpha=base_learning_rate, **kwargs))


def build_adagrad(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> AdagradOptimizer:
    """Like `build_sgd`, by `AdagradOptimizer`."""
    optimizer = AdagradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_wngrad(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> WngradOptimizer:
    """Like `build_sgd`, by `WngradOptimizer`."""
    optimizer = WngradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_storm(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> StormOptimizer:
    """Like `build_sgd`, by `StormOptimizer`."""
    optimizer = StormOptimizer(lr=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_adadelta(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> AdadeltaOptimizer:
    """Like `build_sgd`, by `AdadeltaOptimizer`."""
    optimizer = AdadeltaOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_adam(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> AdamOptimizer:
    """Like `build_sgd`, by `AdamOptimizer`."""
    optimizer = AdamOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def build_rms_prop(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> RmsPropOptimizer:
    """Like `build_sgd`, by `RmsPropOptimizer`."""
    optimizer = RmsPropOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, optimizer, **_rate(max_gradient_norm, allow_lr_injection))


def _rate(max_gradient_norm: float | None, allow_lr_injection: bool) -> dict[str, Any]:
    """What holds for the rates of all parameters."""
    return {"max_gradient_norm": max_gradient_norm, "allow_lr_injection": allow_lr_injection}


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Adds ``weight_decay`` times each weight (not bias) to its gradient; call it before building the optimizer."""
    _build(model, WeightDecayBuilder(weight_decay), weights_only=True, use_param_info_optim=False)


def _build(
    model: Any,
    optimizer: AnyOptimizer,
    weights_only: bool = False,
    use_param_info_optim: bool = True,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
) -> AnyOptimizer:
    model.Validate()
    params = [info for info in model.GetOptimizationParamInfo() if not weights_only or info.blob in model.weights]
    if not params:
        raise NoParametersError(_why_nothing(model, type(optimizer).__name__, weights_only))
    devices = _devices(model)
    multiplier: Any = None
    if max_gradient_norm is not None:
        multiplier = _calc_norm_ratio(model, params, "norm_clipped_grad_update", devices, max_gradient_norm)
    if allow_lr_injection:
        injection: Any = _LEARNING_RATE_INJECTION
        if not model.net.BlobIsDefined(_LEARNING_RATE_INJECTION):
            injection = model.param_init_net.ConstantFill([], _LEARNING_RATE_INJECTION, shape=[1], value=1.0)
        multiplier = (
            injection if multiplier is None else model.net.Mul([multiplier, injection], "lr_multiplier", broadcast=1)
        )
    optimizer.add_lr_multiplier(multiplier)
    for info in params:
        with DeviceScope(get_param_device(info.name, info.grad, devices)):
            own = info.optimizer if use_param_info_optim else None
            (own or optimizer)(model.net, model.param_init_net, info)
    return optimizer


def _why_nothing(model: Any, optimizer: str, weights_only: bool) -> str:
    candidates = model.weights if weights_only else model.params
    kind = "weights" if weights_only else "parameters"
    start = f"{optimizer}: model {model.name!r} has nothing to optimize"
    if not candidates:
        return f"{start}: it has no {kind}; make layers with brew, or declare blobs with model.AddParameter"
    names = ", ".join(map(repr, map(str, candidates[:5]))) + (", ..." if len(candidates) > 5 else "")
    return (
        f"{start}: none of its {len(candidates)} {kind} ({names}) has a gradient; "
        f"model.net.ExplainGradient({str(candidates[0])!r}) "
        "says why"
    )


def _devices(model: Any) -> dict[str, Any]:
    """Blob -> the device of the operator that writes it; the init net decides."""
    return {
        name: op.device_option
        for net in (model.net, model.param_init_net)
        for op in net.Proto().op
        for name in op.output
    }


def get_param_device(
    param_name: str, grad: Any, param_to_device: Mapping[str, Any] | None = None, default_device: Any = None
) -> Any:
    """Where a parameter lives: where it, or else its gradient, is written.

    Raises:
        AssertionError: nothing writes them and there is no default.
    """
    known = param_to_device or {}
    gradients: Sequence[Any] = [grad.values, grad.indices] if isinstance(grad, GradientSlice) else [grad]
    candidates = [param_name] if param_name in known else [str(g) for g in gradients]
    device = next((known[name] for name in candidates if name in known), default_device)
    if device is None:
        raise AssertionError(f"the device of {param_name!r} is not known: no operator writes it or its gradient")
    return device


def _calc_norm_ratio(
    model: Any, params: Sequence[ParameterInfo], name_scope: str, devices: Mapping[str, Any], max_gradient_norm: float
) -> Any:
    """What all gradients are multiplied by, so that their norm is at most the given one."""
    net = model.net
    with NameScope(name_scope):
        squares = []
        for k, info in enumerate(params):
            with DeviceScope(get_param_device(info.name, info.grad, devices)):
                grad = info.grad.values if isinstance(info.grad, GradientSlice) else info.grad
                squares.append(net.EnsureCPUOutput(net.SumSqrElements(grad, f"grad_{k}_squared_sum")))
        with DeviceScope(DeviceOption(CPU)):
            norm = net.Pow(net.Sum(squares, "grad_squared_full_sum"), "global_norm", exponent=0.5)
            bound = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(max_gradient_norm))
            return net.Div([bound, net.Max([norm, bound], "max_norm")], "norm_ratio")


def get_lr_injection() -> Any:
    """The current multiplier of the learning rate, float32 [1] (see ``allow_lr_injection``)."""
    from netgrad.runtime import current

    return current.FetchBlob(_LEARNING_RATE_INJECTION)


def set_lr_injection(lr_injection_value: float) -> None:
    """Sets the multiplier of the learning rate for the next runs (see ``allow_lr_injection``)."""
    import numpy as np

    from netgrad.runtime import current

    current.FeedBlob(_LEARNING_RATE_INJECTION, np.array([lr_injection_value], np.float32))
