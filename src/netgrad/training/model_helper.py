"""`ModelHelper`: a net, the net that initializes its parameters, and what is known of the parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from netgrad.graph import scope
from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.operator import GradientSlice, IsOperator, UnknownOperatorError
from netgrad.graph.scope import _NAMESCOPE_SEPARATOR
from netgrad.training.modifiers import DEFAULT_OPTIM, OptimizerContext, RegularizerContext
from netgrad.training.parameters import ParameterInfo, ParameterTags
from netgrad.training.sharing import parameter_sharing_context

Tags = str | Iterable[str] | None

#: what marks operators of the init net in a net that holds both
INIT_MARK = "/param_init_net"

_ordinary_operators = frozenset(
    """
    Accuracy Adadelta Adagrad Adam Add AveragedLoss Cast Checkpoint ConstantFill Copy CopyCPUToGPU CopyGPUToCPU
    DequeueBlobs EnsureCPUOutput ExpandDims Flatten FlattenToVec LabelCrossEntropy LearningRate MakeTwoClass MatMul
    NCCLAllreduce NHWC2NCHW PRelu PackSegments Print ReduceFrontSum Scale ScatterWeightedSum Sigmoid Snapshot Softmax
    SoftmaxWithLoss SortedSegmentSum SparseAdadelta SparseAdagrad SquaredL2Distance Squeeze StopGradient Summarize Tanh
    Transpose UnpackSegments WeightedSum YellowFin
    """.split()  # noqa: SIM905
)


class ModelHelper:
    """A net under construction, together with its parameters.

    Layers come from `brew` (``brew.fc(model, "x", "y", 4, 2)``); operators without parameters can be written on the
    model itself (``model.Relu("y", "z")``) or on ``model.net``.

    Attributes:
        net: the net that computes.
        param_init_net: the net that fills the parameters; it is run once.
        params: parameters that are trained; `GetComputedParams` has the others.
        weights, biases: those with the tag.
        param_to_grad: parameter -> gradient, after `AddGradientOperators`.
        init_params: whether helpers write filling operators; if not, somebody else provides the parameters.
    """

    def __init__(
        self,
        name: str | None = None,
        init_params: bool = True,
        allow_not_known_ops: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
        arg_scope: Mapping[str, Any] | None = None,
    ) -> None:
        """Makes a model.

        Args:
            name: the name of the net; that of the init net is the same with ``_init``.
            init_params: see the attribute.
            allow_not_known_ops: if False, ``model.X`` takes only a short list of ordinary operators.
            skip_sparse_optim: leave parameters with sparse gradients to others.
            param_model: a model whose parameters this one uses.
            arg_scope: arguments that every helper passes to its operator, beyond ``order="NCHW"``, ``use_cudnn=True``
                and ``cudnn_exhaustive_search=False``.
        """
        self.name = name or "model"
        self.net = Net(self.name)
        if param_model is None:
            self.param_init_net = Net(self.name + "_init")
            self.param_to_grad: dict[BlobReference, Any] = {}
            self.params: list[BlobReference] = []
            self._parameters_info: dict[Any, ParameterInfo] = {}
            self._computed_params: list[BlobReference] = []
        else:
            self.param_init_net = param_model.param_init_net
            self.param_to_grad = param_model.param_to_grad
            self.params = param_model.params
            self._parameters_info = param_model._parameters_info
            self._computed_params = param_model._computed_params
        self._devices: list[int] = []
        self.gradient_ops_added = False
        self.grad_map: Any = {}
        self.init_params = init_params
        self.allow_not_known_ops = allow_not_known_ops
        self.skip_sparse_optim = skip_sparse_optim
        self.weights: list[BlobReference] = []
        self.biases: list[BlobReference] = []
        self._arg_scope: dict[str, Any] = {
            "order": "NCHW",
            "use_cudnn": True,
            "cudnn_exhaustive_search": False,
            **(arg_scope or {}),
        }

    @property
    def arg_scope(self) -> dict[str, Any]:
        return self._arg_scope

    def get_name(self) -> str:
        return self.name

    def Proto(self) -> Any:
        return self.net.Proto()

    def InitProto(self) -> Any:
        return self.param_init_net.Proto()

    def RunAllOnGPU(self, *args: Any, **kwargs: Any) -> None:
        self.param_init_net.RunAllOnGPU(*args, **kwargs)
        self.net.RunAllOnGPU(*args, **kwargs)

    def GetDevices(self) -> list[int]:
        if not self._devices:
            raise AssertionError(f"model {self.name!r} runs on one device; data_parallel_model spreads it over several")
        return self._devices

    # parameters

    def create_param(
        self, param_name: str | BlobReference, shape: Sequence[int], initializer: Any, tags: Tags = None
    ) -> BlobReference:
        """A parameter, made by the initializer, or the one of that name if there is one.

        Args:
            param_name: a string, to which name scope and parameter sharing are applied, or a `BlobReference`, which is
                taken as it is.
            shape: its shape.
            initializer: see `netgrad.training.initializers`.
            tags: `ParameterTags`, which also choose its optimizer (see `UseOptimizer`).

        Raises:
            ValueError: the parameter exists with another shape.
        """
        if isinstance(param_name, BlobReference):
            name = str(param_name)
        elif isinstance(param_name, str):
            name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise TypeError(f"a parameter's name is a string or a BlobReference, not {param_name!r}")
        known = self._parameters_info.get(name)
        if known is not None:
            if known.shape != shape:
                raise ShapeConflict(
                    f"parameter {name!r} of model {self.name!r} exists with shape {known.shape}; it cannot be "
                    f"shared with one of shape {shape}"
                )
            return known.blob
        info: ParameterInfo = initializer.create_param(
            param_name=BlobReference(name), init_net=self.param_init_net, shape=shape
        )
        optimizers = OptimizerContext.current()
        for tag in _tag_set(tags):
            if optimizers.has_optimizer(tag):
                info.optimizer = optimizers.get_optimizer(tag)
        if not info.optimizer and optimizers.has_optimizer(DEFAULT_OPTIM):
            info.optimizer = optimizers.get_optimizer(DEFAULT_OPTIM)
        info.regularizer = RegularizerContext.current()
        self._parameters_info[name] = info
        self.AddParameter(info.blob, tags)
        return info.blob

    def get_param_info(self, param: BlobReference) -> ParameterInfo | None:
        if not isinstance(param, BlobReference):
            raise AssertionError(f"a parameter is a BlobReference, not {param!r}, a {type(param).__name__}")
        return self._parameters_info.get(param)

    def AddParameter(self, param: BlobReference, tags: Tags = None) -> None:
        """Declares a blob a parameter of this model."""
        if not isinstance(param, BlobReference):
            raise AssertionError(f"a parameter is a BlobReference, not {param!r}, a {type(param).__name__}")
        names = _tag_set(tags)
        (self._computed_params if ParameterTags.COMPUTED_PARAM in names else self.params).append(param)
        if ParameterTags.WEIGHT in names:
            self.weights.append(param)
        if ParameterTags.BIAS in names:
            self.biases.append(param)

    def add_param_DEPRECATED(
        self, param: BlobReference, key: Any = None, shape: Sequence[int] | None = None, length: int | None = None
    ) -> ParameterInfo:
        """The older form of `AddParameter`; returns what is known of the parameter.

        Args:
            key: the blob of the net's input record that looks up its rows; its field's name is kept.
            shape: its shape; unless said, that which the init net fills.
            length: how many parameters it stands for.
        """
        self.AddParameter(param)
        record = self.net.input_record()
        if key is not None and record is not None:
            key = record.field_names()[record.field_blobs().index(key)]
        if shape is None:
            fills = [op for op in self.param_init_net.Proto().op if str(param) in op.output]
            shape = next((list(arg.ints) for op in fills for arg in op.arg if arg.name == "shape"), None)
        info = ParameterInfo(len(self.params) - 1, param, key=key, shape=shape, length=length)
        self._parameters_info[str(param)] = info
        return info

    def GetParams(self, namescope: str | None = None, top_scope: bool = False) -> list[BlobReference]:
        """The trained parameters in a name scope (None: the current one; '': all)."""
        return _in_scope(self.params, namescope)

    def GetComputedParams(self, namescope: str | None = None) -> list[BlobReference]:
        """The parameters in a name scope that are computed from data, such as running means."""
        return _in_scope(self._computed_params, namescope)

    def GetAllParams(self, namescope: str | None = None) -> list[BlobReference]:
        return self.GetParams(namescope) + self.GetComputedParams(namescope)

    def _Validate(self) -> list[str]:
        """Names that occur twice among the parameters, sorted."""
        return sorted(name for name, count in Counter(map(str, self.params)).items() if count > 1)

    def Validate(self) -> None:
        """Raises AssertionError if a parameter was added twice."""
        if twice := self._Validate():
            raise AssertionError(f"model {self.name!r} has parameters more than once: {', '.join(twice)}")

    # gradients

    def AddGradientOperators(self, *args: Any, **kwargs: Any) -> Any:
        """Appends the backward pass to the net (see `Net.AddGradientOperators`) and notes the parameters' gradients.

        Raises:
            RuntimeError: it has been done.
        """
        if self.gradient_ops_added:
            raise RuntimeError(
                f"model {self.name!r} has its gradient operators already; AddGradientOperators is called once, "
                "with all losses"
            )
        self.Validate()
        self.grad_map = self.net.AddGradientOperators(*args, **kwargs)
        self.gradient_ops_added = True
        self.param_to_grad = self.get_param_to_grad(self.params)
        for param, grad in self.param_to_grad.items():
            info = self.get_param_info(param)
            if info is None:
                self._parameters_info[param] = ParameterInfo(None, param, grad=grad)
            else:
                info.grad = grad
        return self.grad_map

    def get_param_to_grad(self, params: Iterable[Any]) -> dict[Any, Any]:
        """Parameter -> gradient, for those that have one."""
        self._require_gradients()
        return {param: self.grad_map[str(param)] for param in params if str(param) in self.grad_map}

    def GetOptimizationParamInfo(self, params: Iterable[Any] | None = None) -> list[ParameterInfo]:
        """What an optimizer has to update: the parameters (None: all) that have a gradient."""
        self._require_gradients()
        gradients = self.get_param_to_grad(params) if params else self.param_to_grad
        infos = []
        for param, grad in gradients.items():
            if self.skip_sparse_optim and isinstance(grad, GradientSlice):
                continue
            info = self._parameters_info.get(str(param)) or ParameterInfo(None, BlobReference(str(param)))
            if info.grad is None:
                info.grad = grad
            infos.append(info)
        return infos

    def _require_gradients(self) -> None:
        if not self.gradient_ops_added:
            raise RuntimeError(f"model {self.name!r} has no gradients yet; call AddGradientOperators first")

    # data

    def CreateDB(self, blob_out: Any, db: str, db_type: str, **kwargs: Any) -> BlobReference:
        return self.param_init_net.CreateDB([], blob_out, db=db, db_type=db_type, **kwargs)  # type: ignore[no-any-return]

    def TensorProtosDBInput(
        self, unused_blob_in: Sequence[Any], blob_out: Any, batch_size: int, db: str, db_type: str, **kwargs: Any
    ) -> Any:
        """Reads batches of tensors from a database; for a reader that exists, use ``model.net.TensorProtosDBInput``."""
        from netgrad.training.helpers.data import db_input

        if len(unused_blob_in):
            raise AssertionError(
                "a model's TensorProtosDBInput opens its own reader; give yours to model.net.TensorProtosDBInput"
            )
        return db_input(self, blob_out, batch_size, db, db_type, **kwargs)

    # both nets in one

    def GetCompleteNet(self) -> Net:
        """A net with the operators of the init net, which are marked, and those of the net."""
        complete: Net = self.param_init_net.Clone(self.name + "_complete_net", keep_schema=True)
        for op in complete.Proto().op:
            op.debug_info += INIT_MARK
        complete.AppendNet(self.net)
        if self.net.Proto().HasField("type"):
            complete.Proto().type = self.net.Proto().type
        return complete

    def ConstructInitTrainNetfromNet(self, net: Net) -> None:
        """Takes both nets from one that `GetCompleteNet` made."""
        ops = net.Proto().op
        init = [k for k, op in enumerate(ops) if op.debug_info.endswith(INIT_MARK)]
        marked = set(init)
        train = [k for k in range(len(ops)) if k not in marked]
        self.param_init_net = net.Clone(
            net.Name() + "/generated_param_init_net", keep_schema=True, op_id_mask=init, update_external_list=True
        )
        self.net = net.Clone(
            net.Name() + "/generated_net", keep_schema=True, op_id_mask=train, update_external_list=True
        )

    # operators

    def __getattr__(self, op_type: str) -> Any:
        """``model.X(...)`` is ``model.net.X(...)``."""
        if op_type.startswith("_"):
            raise AttributeError(f"a {type(self).__name__} has no attribute {op_type!r}")
        if not IsOperator(op_type):
            raise UnknownOperatorError(op_type)
        if not self.allow_not_known_ops and op_type not in _ordinary_operators:
            raise AttributeError(
                f"model {self.name!r} was made with allow_not_known_ops=False, and {op_type} is not among the "
                "ordinary operators; write it on model.net"
            )
        return getattr(self.net, op_type)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *_ordinary_operators})

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        raise TypeError(f"model {self.name!r} cannot be copied; clone its nets, or share its parameters (param_model=)")


class ShapeConflict(AssertionError, ValueError):
    """A parameter exists with another shape."""


def _tag_set(tags: Tags) -> set[str]:
    if not tags:
        return set()
    return {tags} if isinstance(tags, str) else set(tags)


def _in_scope(params: Sequence[BlobReference], namescope: str | None) -> list[BlobReference]:
    if namescope is None:
        namescope = scope.CurrentNameScope()
    elif namescope and not namescope.endswith(_NAMESCOPE_SEPARATOR):
        namescope += _NAMESCOPE_SEPARATOR
    return [param for param in params if param.GetNameScope().startswith(namescope)]
