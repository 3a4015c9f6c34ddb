"""Nets of the convolution benchmarks that netgrad and the real Caffe2 have to build alike.

``python convnets.py FOLDER``, with a Python that has Caffe2, writes them down: one line per operator.
"""

import os
import sys

from zoo import lines

#: name -> order, work space
NETS = {"AlexNet": ("NCHW", None), "OverFeat": ("NHWC", 1024), "VGGA": ("NCHW", None), "Inception": ("NCHW", 64),
        "MLP": ("NCHW", None)}


def build(convnet_benchmarks, name):
    """Training nets: the lines of the init net and of the net with gradients and updates."""
    from caffe2.python import core

    core.Net._net_names_used.clear()
    model, size = getattr(convnet_benchmarks, name)(*NETS[name])
    model.AddGradientOperators(["loss"])
    convnet_benchmarks.AddParameterUpdate(model)
    return [f"images of {size}", *lines(model.param_init_net.Proto()), *lines(model.net.Proto())]


if __name__ == "__main__":
    from caffe2.python import convnet_benchmarks

    for net in NETS:
        with open(os.path.join(sys.argv[1], f"{net}.txt"), "w") as file:
            file.write("\n".join(build(convnet_benchmarks, net)) + "\n")
