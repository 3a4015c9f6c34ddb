"""What the nets have in common: a description of each, random data, and the end of a training net.

These modules use nothing but `caffe2.python` and NumPy, and run in Caffe2 itself, whose Python is 3.8.
"""

from __future__ import annotations

import numpy as np

from caffe2.python import optimizer
from caffe2.python.modeling.initializers import Initializer


class Net:
    """A net that is measured.

    Attributes:
        build: from sizes, keyword arguments, to a model and the blobs that are fed.
        sizes: the sizes that are measured; ``quick`` are small ones, to see that all runs.
        steps: training steps of a round of measuring.
        seen: the blobs that are fetched after each step; the loss and the last parameter unless given.
    """

    def __init__(self, build, steps, quick, seen=None, **sizes):
        self.build = build
        self.name = build.__name__
        self.steps = steps
        self.quick = quick
        self.sizes = sizes
        self.seen = seen

    def sized(self, quick):
        return dict(self.sizes, **self.quick) if quick else dict(self.sizes)


_random = np.random.RandomState(0)


def floats(*shape):
    return _random.standard_normal(shape).astype(np.float32)


def classes(count, kinds):
    return _random.randint(0, kinds, count).astype(np.int32)


def places(count, rows):
    return _random.randint(0, rows, count).astype(np.int64)


def parameter(model, name, shape, spread):
    """A parameter, evenly distributed between -spread and spread."""
    return model.create_param(name, shape=shape, initializer=Initializer("UniformFill", min=-spread, max=spread))


def constant(model, name, size, value):
    return model.create_param(name, shape=[size], initializer=Initializer("ConstantFill", value=value))


#: so small that it says nothing: libraries add it to Adam's denominator before or after the correction of bias
ADAM_EPSILON = 1e-12


def train(model, scores, build=optimizer.build_sgd, rate=0.01, **options):
    """Adds the softmax loss of scores and labels, its derivative, and the updates of an optimizer with its options."""
    model.net.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators(["loss"])
    build(model, base_learning_rate=rate, **options)
    return model
