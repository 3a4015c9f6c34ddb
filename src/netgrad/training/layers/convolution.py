"""Convolutional layer."""

from __future__ import annotations

from typing import Any

from netgrad.training.layers.base import ModelLayer, float_rows
from netgrad.training.layers.checks import require, row_shape


class Conv(ModelLayer):
    """2-dimensional convolution of rows (height, width, channels), or (channels, height, width) with order "NCHW".

    The output record says only the number of channels: ``Scalar((np.float32, (output_dim,)))``.
    """

    def __init__(
        self, model: Any, input_record: Any, output_dim: int, kernel_h: int, kernel_w: int, stride_h: int,
        stride_w: int, pad_b: int | None = None, pad_l: int | None = None, pad_r: int | None = None,
        pad_t: int | None = None, order: str = "NHWC", kernel_init: Any = None, bias_init: Any = None,
        kernel_optim: Any = None, bias_optim: Any = None, name: str = "conv", **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            output_dim: number of filters.
            pad_b, pad_l, pad_r, pad_t: padding below, left, right and above; None: half a kernel for stride 1, which
                keeps the size of odd kernels, and none for others.
        """
        super().__init__(model, name, input_record, **kwargs)
        shape = row_shape(self, input_record)
        require(self, order in ("NHWC", "NCHW"), f"order is NHWC or NCHW, not {order!r}")
        self.kernel_h, self.kernel_w, self.stride_h, self.stride_w = kernel_h, kernel_w, stride_h, stride_w
        for what in ("kernel_h", "kernel_w", "stride_h", "stride_w"):
            size = getattr(self, what)
            require(self, isinstance(size, int) and size > 0, f"{what} must be a positive integer, but is {size!r}")
        tall = (kernel_h - 1) // 2 if stride_h == 1 else 0
        wide = (kernel_w - 1) // 2 if stride_w == 1 else 0
        self.pad_t, self.pad_b = tall if pad_t is None else pad_t, tall if pad_b is None else pad_b
        self.pad_l, self.pad_r = wide if pad_l is None else pad_l, wide if pad_r is None else pad_r
        for what in ("pad_t", "pad_l", "pad_b", "pad_r"):
            size = getattr(self, what)
            require(self, isinstance(size, int) and size >= 0, f"{what} must be an integer from 0 on, but is {size!r}")
        self.order = order
        channels = shape[-1] if order == "NHWC" else shape[0]
        inner = [kernel_h, kernel_w, channels] if order == "NHWC" else [channels, kernel_h, kernel_w]
        self.kernel = self.create_param(param_name="conv_kernel", shape=[output_dim, *inner],
                                        initializer=kernel_init or ("XavierFill", {}), optimizer=kernel_optim)
        self.bias = self.create_param(param_name="conv_bias", shape=[output_dim],
                                      initializer=bias_init or ("ConstantFill", {"value": 0.0}), optimizer=bias_optim)
        self.output_schema = float_rows((output_dim,), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        net.Conv(
            [*self.input_record.field_blobs(), self.kernel, self.bias], self.output_schema.field_blobs(),
            kernel_h=self.kernel_h, kernel_w=self.kernel_w, stride_h=self.stride_h, stride_w=self.stride_w,
            pad_t=self.pad_t, pad_l=self.pad_l, pad_b=self.pad_b, pad_r=self.pad_r, order=self.order,
        )
