"""`Seq2SeqModelHelper`: a model that also has parameters which are not trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.training.model_helper import ModelHelper, _in_scope


class Seq2SeqModelHelper(ModelHelper):
    """A `ModelHelper` with parameters that are saved and loaded with the others and not trained.

    Args:
        init_params: whether fillers of the parameters are written.
        use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit: passed on to every operator that helpers write.
        **kwargs: of `ModelHelper`.

    Attributes:
        non_trainable_params: such parameters.
    """

    def __init__(self, init_params: bool = True, *, use_cudnn: bool = True, cudnn_exhaustive_search: bool = False,
                 ws_nbytes_limit: int | None = None, **kwargs: Any) -> None:
        arguments = {"use_cudnn": use_cudnn, "cudnn_exhaustive_search": cudnn_exhaustive_search, "order": "NHWC"}
        if ws_nbytes_limit:
            arguments["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(init_params=init_params, arg_scope=arguments, **kwargs)
        self.non_trainable_params: list[Any] = []

    def AddParam(self, name: str, init: tuple[str, Mapping[str, Any]] | None = None,
                 init_value: int | float | str | None = None, trainable: bool = True) -> Any:
        """Adds a parameter, and its filler if the model initializes parameters.

        Args:
            name: to which the name scope is applied.
            init: the filler's operator and arguments.
            init_value: a number or string, instead of ``init``: one element of that value.
            trainable: whether it has a gradient.

        Raises:
            AssertionError: both ``init`` and ``init_value`` are given, or neither where a filler is needed.
            TypeError: the value is of another type.
        """
        if init_value is not None:
            if init is not None:
                raise AssertionError(f"parameter {name!r} has both init and init_value; give one of them")
            if not isinstance(init_value, (int, float, str)):
                raise TypeError(f"parameter {name!r} begins with {init_value!r}, a {type(init_value).__name__}; an "
                                "int, float or str is expected")
            init = ("ConstantFill", {"shape": [1], "value": init_value})
        if not self.init_params:
            param = self.net.AddExternalInput(name)
        elif init is None:
            raise AssertionError(f"parameter {name!r} has neither init nor init_value; give one of them")
        else:
            param = getattr(self.param_init_net, init[0])([], name, **init[1])
        (self.params if trainable else self.non_trainable_params).append(param)
        return param

    def GetNonTrainableParams(self, namescope: str | None = None) -> list[Any]:
        """The parameters in a name scope that are not trained (None: the current one; '': all)."""
        return _in_scope(self.non_trainable_params, namescope)

    def GetAllParams(self, namescope: str | None = None) -> list[Any]:
        return super().GetAllParams(namescope) + self.GetNonTrainableParams(namescope)
