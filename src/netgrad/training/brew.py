"""`brew`: helpers that write layers into a model, ``brew.fc(model, "x", "y", dim_in=4, dim_out=2)``.

Each helper is called with the arguments that hold for it, weakest first: those of the model (``model.arg_scope``),
those of the surrounding `arg_scope`, those of the call.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from netgrad.training.helpers import bookkeeping, control, convolution, data, dense, elementwise, normalization, pooling
from netgrad.training.helpers.arg_scope import arg_scope, get_current_scope
from netgrad.training.model_helper import ModelHelper

_registry: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module, names in {
        dense: "fc packed_fc fc_decomp fc_prune fc_sparse elementwise_linear dropout",
        convolution: "conv conv_nd group_conv group_conv_deprecated conv_transpose",
        pooling: "max_pool average_pool max_pool_with_index",
        elementwise: """relu tanh prelu softmax transpose sum reduce_sum sub mat_mul batch_mat_mul arg_min concat
                        depth_concat fused_8bit_rowwise_quantized_to_float sparse_lengths_sum_4bit_rowwise_sparse""",
        normalization: "lrn spatial_bn spatial_gn instance_norm layer_norm moments_with_running_stats",
        data: "db_input image_input video_input",
        control: "cond loop",
        bookkeeping: "iter accuracy add_weight_decay",
    }.items()
    for name in names.split()
}


def Register(helper: Callable[..., Any]) -> None:
    """Makes a function ``helper(model, ...)`` callable as ``brew.<its name>``."""
    name = helper.__name__
    if name in _registry:
        raise AttributeError(f"brew has a helper {name} already; give yours another name")
    _registry[name] = helper


def has_helper(helper_or_helper_name: Callable[..., Any] | str) -> bool:
    name = helper_or_helper_name if isinstance(helper_or_helper_name, str) else helper_or_helper_name.__name__
    return name in _registry or name == "arg_scope"


def _helper(name: str) -> Callable[..., Any]:
    """A registered helper, which takes the arguments of the model and of the scopes."""
    if name not in _registry:
        raise AttributeError(f"brew has no helper {name}; brew.Register adds one")
    function = _registry[name]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        model = args[0] if args and isinstance(args[0], ModelHelper) else kwargs.get("model")
        if model is None:
            raise RuntimeError(f"brew.{name}: the first argument is the model, or model=")
        arguments = copy.deepcopy(model.arg_scope)
        parameters = inspect.signature(function).parameters
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            arguments = {key: value for key, value in arguments.items() if key in parameters}
        arguments.update(get_current_scope().get(name, {}))
        arguments.update(kwargs)
        return function(*args, **arguments)

    call.__name__ = name
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _helper(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_registry})


class HelperWrapper:
    """Stands for the module of that name and gives it `brew`'s helpers as attributes."""

    arg_scope = staticmethod(arg_scope)
    Register = staticmethod(Register)
    has_helper = staticmethod(has_helper)
    _registry = _registry

    def __init__(self, wrapped: ModuleType) -> None:
        self.wrapped = wrapped

    def __getattr__(self, helper_name: str) -> Any:
        if helper_name.startswith("__"):
            return getattr(self.wrapped, helper_name)
        return _helper(helper_name)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_registry})
