"""ShuffleNet V2: Ma, Zhang, Zheng, Sun, "Practical Guidelines for Efficient CNN Architecture Design", 2018
(arXiv:1807.11164)."""

from __future__ import annotations

from typing import Any

from netgrad.training import brew

#: width -> channels behind the first convolution, each of the three stages and the last convolution
OUTPUT_CHANNELS = {
    "0.5x": [24, 48, 96, 192, 1024],
    "1.0x": [24, 116, 232, 464, 1024],
    "1.5x": [24, 176, 352, 704, 1024],
    "2.0x": [24, 244, 488, 976, 2048],
}
_MSRA: tuple[str, dict[str, Any]] = ("MSRAFill", {})


class ShuffleNetV2Builder:
    """Writes the net that `create` makes. Images are (N, channels, height, width).

    Args:
        num_groups: of the channel shuffle.
        width: a key of `OUTPUT_CHANNELS`.
        detection: enlarges what each unit sees by a further 3x3 convolution.

    Attributes:
        prev_blob: the output of what was written last.
        last_conv, avg_pool, last_out: there once `create` has run.
    """

    def __init__(self, model: Any, data: Any, num_input_channels: int, num_labels: int, num_groups: int = 2,
                 width: str = "1.0x", is_test: bool = False, detection: bool = False,
                 bn_epsilon: float = 1e-5) -> None:
        self.model = model
        self.prev_blob = data
        self.num_input_channels = num_input_channels
        self.num_labels = num_labels
        self.num_groups = num_groups
        self.output_channels = OUTPUT_CHANNELS[width]
        self.stage_repeats = [3, 7, 3]
        self.is_test = is_test
        self.detection = detection
        self.bn_epsilon = bn_epsilon

    def create(self) -> None:
        """The whole net, up to the scores ``last_out``, (N, ``num_labels``)."""
        first, *stages, last = self.output_channels
        blob = brew.conv(self.model, self.prev_blob, "stage1_conv", self.num_input_channels, first, weight_init=_MSRA,
                         kernel=3, stride=2)
        self.prev_blob = brew.max_pool(self.model, blob, "stage1_pool", kernel=3, stride=2)
        channels = first
        for stage, (wider, repeats) in enumerate(zip(stages, self.stage_repeats, strict=True), 2):
            self.add_spatial_ds_unit(f"stage{stage}_stride2", channels, wider)
            channels = wider
            for k in range(repeats):
                self.add_basic_unit(f"stage{stage}_stride1_repeat{k + 1}", channels)
        self.last_conv = brew.conv(self.model, self.prev_blob, "conv5", channels, last, kernel=1)
        self.avg_pool = self.model.AveragePool(self.last_conv, "avg_pool", kernel=7)
        self.last_out = brew.fc(self.model, self.avg_pool, f"last_out_L{self.num_labels}", last, self.num_labels)

    def add_spatial_ds_unit(self, prefix: str, in_channels: int, out_channels: int, stride: int = 2) -> None:
        """Two branches that both halve the image; together they have ``out_channels``."""
        half = out_channels // 2
        left = self._detecting(self.prev_blob, f"{prefix}_left", in_channels)
        left = self.add_dwconv3x3_bn(left, f"{prefix}left_dwconv", in_channels, stride)
        left = self.add_conv1x1_bn(left, f"{prefix}_left_conv1", in_channels, half)
        self._join(left, self._right(self.prev_blob, prefix, in_channels, half, stride), prefix)

    def add_basic_unit(self, prefix: str, in_channels: int, stride: int = 1) -> None:
        """Half of the channels pass, the other half goes through three convolutions."""
        half = in_channels // 2
        left, right = f"{prefix}_left", f"{prefix}_right"
        self.model.net.Split(self.prev_blob, [left, right])
        self._join(left, self._right(right, prefix, half, half, stride), prefix)

    def _right(self, blob: Any, prefix: str, in_channels: int, out_channels: int, stride: int) -> Any:
        blob = self._detecting(blob, f"{prefix}_right", in_channels)
        blob = self.add_conv1x1_bn(blob, f"{prefix}_right_conv1", in_channels, out_channels)
        blob = self.add_dwconv3x3_bn(blob, f"{prefix}_right_dwconv", out_channels, stride)
        return self.add_conv1x1_bn(blob, f"{prefix}_right_conv2", out_channels, out_channels)

    def _detecting(self, blob: Any, prefix: str, channels: int) -> Any:
        return self.add_detection_unit(blob, f"{prefix}_detection", channels, channels) if self.detection else blob

    def _join(self, left: Any, right: Any, prefix: str) -> None:
        blob = brew.concat(self.model, [right, left], f"{prefix}_concat")
        self.prev_blob = self.model.net.ChannelShuffle(blob, f"{prefix}_ch_shuffle", group=self.num_groups, kernel=1)

    def add_detection_unit(self, prev_blob: Any, prefix: str, in_channels: int, out_channels: int, kernel: int = 3,
                           pad: int = 1) -> Any:
        blob = brew.conv(self.model, prev_blob, f"{prefix}_conv", in_channels, out_channels, kernel=kernel,
                         weight_init=_MSRA, group=in_channels, pad=pad)
        return self._normalized(blob, f"{prefix}_bn", out_channels)

    def add_conv1x1_bn(self, prev_blob: Any, blob: str, in_channels: int, out_channels: int) -> Any:
        made = brew.conv(self.model, prev_blob, blob, in_channels, out_channels, kernel=1, weight_init=_MSRA)
        made = self._normalized(made, f"{made}_bn", out_channels)
        return brew.relu(self.model, made, made)

    def add_dwconv3x3_bn(self, prev_blob: Any, blob: str, channels: int, stride: int) -> Any:
        """A depthwise convolution: each channel sees itself alone."""
        made = brew.conv(self.model, prev_blob, blob, channels, channels, kernel=3, weight_init=_MSRA, stride=stride,
                         group=channels, pad=1)
        return self._normalized(made, f"{made}_bn", channels)

    def _normalized(self, blob: Any, name: str, channels: int) -> Any:
        return brew.spatial_bn(self.model, blob, name, channels, epsilon=self.bn_epsilon, is_test=self.is_test)


def create_shufflenet(model: Any, data: Any, num_input_channels: int, num_labels: int, label: Any = None,
                      is_test: bool = False, no_loss: bool = False) -> Any:
    """ShuffleNet V2 of width 1.

    Returns:
        The scores (N, ``num_labels``) with ``no_loss``; (probabilities, loss) where there is a ``label``; else None.
    """
    builder = ShuffleNetV2Builder(model, data, num_input_channels, num_labels, is_test=is_test)
    builder.create()
    if no_loss:
        return builder.last_out
    if label is None:
        return None
    softmax, loss = model.SoftmaxWithLoss([builder.last_out, label], ["softmax", "loss"])
    return softmax, loss
