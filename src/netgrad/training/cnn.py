"""`CNNModelHelper`: the older way to write models, with layers as methods; `brew` has taken its place."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from netgrad.graph.device import CPU, DeviceOption
from netgrad.training import brew
from netgrad.training.initializers import Filler
from netgrad.training.model_helper import ModelHelper


class CNNModelHelper(ModelHelper):
    """A model whose methods are `brew`'s helpers: ``model.Conv(...)`` is ``brew.conv(model, ...)``."""

    def __init__(
        self,
        order: str = "NCHW",
        name: str | None = None,
        use_cudnn: bool = True,
        cudnn_exhaustive_search: bool = False,
        ws_nbytes_limit: int | None = None,
        init_params: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
    ) -> None:
        if order not in {"NCHW", "NHWC"}:
            raise ValueError(f"the order of image axes is NCHW or NHWC, not {order!r}")
        scope = {"order": order, "use_cudnn": use_cudnn, "cudnn_exhaustive_search": cudnn_exhaustive_search}
        if ws_nbytes_limit:
            scope["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(
            name or "CNN", init_params, skip_sparse_optim=skip_sparse_optim, param_model=param_model, arg_scope=scope
        )
        self.order = order
        self.use_cudnn = use_cudnn
        self.cudnn_exhaustive_search = cudnn_exhaustive_search
        self.ws_nbytes_limit = ws_nbytes_limit

    def _brew(self, helper: str, *args: Any, **kwargs: Any) -> Any:
        return getattr(brew, helper)(self, *args, **kwargs)

    Conv = partialmethod(_brew, "conv")
    ConvNd = partialmethod(_brew, "conv_nd")
    ConvTranspose = partialmethod(_brew, "conv_transpose")
    GroupConv = partialmethod(_brew, "group_conv")
    GroupConv_Deprecated = partialmethod(_brew, "group_conv_deprecated")
    FC = partialmethod(_brew, "fc")
    PackedFC = partialmethod(_brew, "packed_fc")
    FC_Decomp = partialmethod(_brew, "fc_decomp")
    FC_Prune = partialmethod(_brew, "fc_prune")
    FC_Sparse = partialmethod(_brew, "fc_sparse")
    Dropout = partialmethod(_brew, "dropout")
    LRN = partialmethod(_brew, "lrn")
    Softmax = partialmethod(_brew, "softmax")
    SpatialBN = partialmethod(_brew, "spatial_bn")
    SpatialGN = partialmethod(_brew, "spatial_gn")
    InstanceNorm = partialmethod(_brew, "instance_norm")
    Relu = partialmethod(_brew, "relu")
    PRelu = partialmethod(_brew, "prelu")
    Concat = partialmethod(_brew, "concat")
    DepthConcat = partialmethod(_brew, "depth_concat")
    Sum = partialmethod(_brew, "sum")
    Transpose = partialmethod(_brew, "transpose")
    Iter = partialmethod(_brew, "iter")
    Accuracy = partialmethod(_brew, "accuracy")
    MaxPool = partialmethod(_brew, "max_pool")
    MaxPoolWithIndex = partialmethod(_brew, "max_pool_with_index")
    AveragePool = partialmethod(_brew, "average_pool")
    ImageInput = partialmethod(_brew, "image_input")
    VideoInput = partialmethod(_brew, "video_input")
    AddWeightDecay = partialmethod(_brew, "add_weight_decay")

    def PadImage(self, blob_in: Any, blob_out: Any, **kwargs: Any) -> None:
        self.net.PadImage(blob_in, blob_out, **kwargs)

    @property
    def XavierInit(self) -> Filler:
        return "XavierFill", {}

    @property
    def MSRAInit(self) -> Filler:
        return "MSRAFill", {}

    @property
    def ZeroInit(self) -> Filler:
        return "ConstantFill", {}

    def ConstantInit(self, value: float) -> Filler:
        return "ConstantFill", {"value": value}

    @property
    def CPU(self) -> Any:
        return DeviceOption(CPU)

    @property
    def GPU(self) -> Any:
        from netgrad.runtime.devices import GpuDeviceType

        return DeviceOption(GpuDeviceType)
