"""Residual nets for images.

ResNet: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2015 (arXiv:1512.03385).
ResNeXt: Xie et al., "Aggregated Residual Transformations for Deep Neural Networks", 2016 (arXiv:1611.05431).
"""

from __future__ import annotations

import logging
from typing import Any

from netgrad.training import brew

#: layers -> how many blocks each of the four stages has
RESNEXT_BLOCK_CONFIG = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
#: the stride of each stage's first block
RESNEXT_STRIDES = [1, 2, 2, 2]
_MSRA: tuple[str, dict[str, Any]] = ("MSRAFill", {})

log = logging.getLogger("resnext_builder")


class ResNetBuilder:
    """Writes residual blocks behind a blob. Images are (N, channels, height, width), or as the model's order says.

    Attributes:
        prev_blob: the output of what was written last.
        comp_count: the blocks so far, which number the names.
        comp_idx: the convolutions of the current block so far.
    """

    def __init__(self, model: Any, prev_blob: Any, no_bias: bool | int, is_test: bool | int, bn_epsilon: float = 1e-5,
                 bn_momentum: float = 0.9) -> None:
        self.model = model
        self.comp_count = 0
        self.comp_idx = 0
        self.prev_blob = prev_blob
        self.is_test = is_test
        self.bn_epsilon = bn_epsilon
        self.bn_momentum = bn_momentum
        self.no_bias = int(bool(no_bias))

    def add_conv(self, in_filters: int, out_filters: int, kernel: int, stride: int = 1, group: int = 1,
                 pad: int = 0) -> Any:
        self.comp_idx += 1
        self.prev_blob = brew.conv(
            self.model, self.prev_blob, f"comp_{self.comp_count}_conv_{self.comp_idx}", in_filters, out_filters,
            weight_init=_MSRA, kernel=kernel, stride=stride, group=group, pad=pad, no_bias=self.no_bias)
        return self.prev_blob

    def add_relu(self) -> Any:
        self.prev_blob = brew.relu(self.model, self.prev_blob, self.prev_blob)
        return self.prev_blob

    def add_spatial_bn(self, num_filters: int) -> Any:
        self.prev_blob = brew.spatial_bn(
            self.model, self.prev_blob, f"comp_{self.comp_count}_spatbn_{self.comp_idx}", num_filters,
            epsilon=self.bn_epsilon, momentum=self.bn_momentum, is_test=self.is_test)
        return self.prev_blob

    def add_bottleneck(self, input_filters: int, base_filters: int, output_filters: int, stride: int = 1,
                       group: int = 1, spatial_batch_norm: bool = True) -> int:
        """A block of convolutions 1x1, 3x3 (which strides and has the groups) and 1x1; returns ``output_filters``."""
        shortcut, self.comp_idx = self.prev_blob, 0
        for filters, window in ((input_filters, {"kernel": 1}),
                                (base_filters, {"kernel": 3, "stride": stride, "group": group, "pad": 1})):
            self.add_conv(filters, base_filters, **window)
            if spatial_batch_norm:
                self.add_spatial_bn(base_filters)
            self.add_relu()
        branch = self.add_conv(base_filters, output_filters, kernel=1)
        if spatial_batch_norm:
            branch = self.add_spatial_bn(output_filters)
        if output_filters != input_filters:
            shortcut = self._project(shortcut, input_filters, output_filters, stride, spatial_batch_norm,
                                     epsilon=self.bn_epsilon, momentum=self.bn_momentum)
        self._join(shortcut, branch)
        return output_filters

    def add_simple_block(self, input_filters: int, num_filters: int, down_sampling: bool = False,
                         spatial_batch_norm: bool = True) -> None:
        """A block of two convolutions 3x3, the first of which halves the image if ``down_sampling``."""
        shortcut, self.comp_idx = self.prev_blob, 0
        stride = 2 if down_sampling else 1
        self.add_conv(input_filters, num_filters, kernel=3, stride=stride, pad=1)
        if spatial_batch_norm:
            self.add_spatial_bn(num_filters)
        self.add_relu()
        branch = self.add_conv(num_filters, num_filters, kernel=3, pad=1)
        if spatial_batch_norm:
            branch = self.add_spatial_bn(num_filters)
        if num_filters != input_filters:
            shortcut = self._project(shortcut, input_filters, num_filters, stride, spatial_batch_norm, epsilon=1e-3)
        self._join(shortcut, branch)

    def _project(self, blob: Any, input_filters: int, output_filters: int, stride: int, spatial_batch_norm: bool,
                 **normalization: float) -> Any:
        """The shortcut where shapes change: a convolution 1x1."""
        name = f"shortcut_projection_{self.comp_count}"
        blob = brew.conv(self.model, blob, name, input_filters, output_filters, weight_init=_MSRA, kernel=1,
                         stride=stride, no_bias=self.no_bias)
        if spatial_batch_norm:
            blob = brew.spatial_bn(self.model, blob, f"{name}_spatbn", output_filters, **normalization,
                                   is_test=self.is_test)
        return blob

    def _join(self, shortcut: Any, branch: Any) -> None:
        self.prev_blob = brew.sum(self.model, [shortcut, branch], f"comp_{self.comp_count}_sum_{self.comp_idx}")
        self.comp_idx += 1
        self.add_relu()
        self.comp_count += 1


def create_resnet_32x32(model: Any, data: Any, num_input_channels: int, num_groups: int, num_labels: int,
                        is_test: bool = False) -> Any:
    """The net for images of 32 x 32 of section 4.2 of He et al.; ``num_groups`` is half their n.

    Returns:
        The probabilities, (N, ``num_labels``).
    """
    brew.conv(model, data, "conv1", num_input_channels, 16, kernel=3, stride=1)
    brew.spatial_bn(model, "conv1", "conv1_spatbn", 16, epsilon=1e-3, is_test=is_test)
    brew.relu(model, "conv1_spatbn", "relu1")
    builder = ResNetBuilder(model, "relu1", no_bias=0, is_test=is_test)
    before = 16
    for stage, filters in enumerate((16, 32, 64)):
        for _ in range(2 * num_groups):
            builder.add_simple_block(before, filters, down_sampling=stage > 0 and before != filters)
            before = filters
    brew.average_pool(model, builder.prev_blob, "final_avg", kernel=8, stride=1)
    brew.fc(model, "final_avg", "last_out", 64, num_labels)
    return brew.softmax(model, "last_out", "softmax")


def create_resnext(model: Any, data: Any, num_input_channels: int, num_labels: int, num_layers: int, num_groups: int,
                   num_width_per_group: int, label: Any = None, is_test: bool = False, no_loss: bool = False,
                   no_bias: bool | int = 1, conv1_kernel: int = 7, conv1_stride: int = 2, final_avg_kernel: int = 7,
                   log: logging.Logger | None = None, bn_epsilon: float = 1e-5, bn_momentum: float = 0.9) -> Any:
    """A ResNeXt of bottleneck blocks whose inner convolutions have ``num_groups`` groups.

    The first and last windows may be fitted to other images than those of 224 x 224. ``bn_epsilon`` and ``bn_momentum``
    hold for the first normalization alone, as in Caffe2.

    Args:
        num_layers: 18, 34, 50, 101, 152 or 200.
        log: told when ``num_layers`` is none of these.

    Returns:
        The scores (N, ``num_labels``) with ``no_loss``; (probabilities, loss) where there is a ``label``; else the
        probabilities.

    Raises:
        ValueError: there is no net of so many layers.
    """
    if num_layers not in RESNEXT_BLOCK_CONFIG:
        message = f"there is no ResNeXt of {num_layers} layers; there are {', '.join(map(str, RESNEXT_BLOCK_CONFIG))}"
        if log is not None:
            log.error(message)
        raise ValueError(message)
    filters = [64, 64, 128, 256, 512] if num_layers in (18, 34) else [64, 256, 512, 1024, 2048]

    blob = brew.conv(model, data, "conv1", num_input_channels, filters[0], weight_init=_MSRA, kernel=conv1_kernel,
                     stride=conv1_stride, pad=3, no_bias=no_bias)
    blob = brew.spatial_bn(model, blob, "conv1_spatbn_relu", filters[0], epsilon=bn_epsilon, momentum=bn_momentum,
                           is_test=is_test)
    blob = brew.relu(model, blob, blob)
    blob = brew.max_pool(model, blob, "pool1", kernel=3, stride=2, pad=1)

    builder = ResNetBuilder(model, blob, no_bias=no_bias, is_test=is_test)
    inner = num_groups * num_width_per_group
    depth = filters[0]
    for blocks, stride, outside in zip(RESNEXT_BLOCK_CONFIG[num_layers], RESNEXT_STRIDES, filters[1:], strict=True):
        for block in range(blocks):
            depth = builder.add_bottleneck(depth, inner, outside, stride=1 if block else stride, group=num_groups)
        inner *= 2

    blob = brew.average_pool(model, builder.prev_blob, "final_avg", kernel=final_avg_kernel, stride=1,
                             global_pooling=True)
    scores = brew.fc(model, blob, f"last_out_L{num_labels}", filters[-1], num_labels)
    if no_loss:
        return scores
    if label is not None:
        softmax, loss = model.SoftmaxWithLoss([scores, label], ["softmax", "loss"])
        return softmax, loss
    return brew.softmax(model, scores, "softmax")


def create_resnet50(model: Any, data: Any, num_input_channels: int, num_labels: int, label: Any = None,
                    is_test: bool = False, no_loss: bool = False, no_bias: bool | int = 0, conv1_kernel: int = 7,
                    conv1_stride: int = 2, final_avg_kernel: int = 7) -> Any:
    """ResNet-50, which is the ResNeXt of 50 layers with one group of 64; see `create_resnext`."""
    return create_resnext(
        model, data, num_input_channels, num_labels, num_layers=50, num_groups=1, num_width_per_group=64, label=label,
        is_test=is_test, no_loss=no_loss, no_bias=no_bias, conv1_kernel=conv1_kernel, conv1_stride=conv1_stride,
        final_avg_kernel=final_avg_kernel)
