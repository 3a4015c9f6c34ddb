"""Caffe2's `visualize`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.tools.patches": "ChannelFirst ChannelLast NCHW NHWC PatchVisualizer _default_visualizer",
}, {"cm": "matplotlib.cm", "np": "numpy", "pyplot": "matplotlib.pyplot"})
