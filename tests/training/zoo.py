"""Nets of the zoo that netgrad and the real Caffe2 have to build alike.

``python zoo.py FOLDER``, with a Python that has Caffe2, writes them down: one line per operator.
"""

import os
import sys


def bottlenecks(resnet, shufflenet, model):
    """Blocks with and without normalization, groups and projection."""
    builder = resnet.ResNetBuilder(model, "data", no_bias=1, is_test=False, bn_epsilon=1e-4, bn_momentum=0.8)
    builder.add_bottleneck(8, 4, 16, stride=2, group=2)
    builder.add_bottleneck(16, 4, 16, spatial_batch_norm=False)
    builder.add_bottleneck(16, 4, 8, spatial_batch_norm=False)


def simple_blocks(resnet, shufflenet, model):
    builder = resnet.ResNetBuilder(model, "data", no_bias=False, is_test=True)
    builder.add_simple_block(8, 8, down_sampling=True)
    builder.add_simple_block(8, 16, spatial_batch_norm=False)
    builder.add_simple_block(16, 32, down_sampling=True)


def detection(resnet, shufflenet, model):
    builder = shufflenet.ShuffleNetV2Builder(model, "data", 3, 10, num_groups=4, detection=True, bn_epsilon=1e-3)
    builder.add_spatial_ds_unit("first", 8, 16)
    builder.add_basic_unit("second", 16)


NETS = {
    "bottlenecks": bottlenecks,
    "simple_blocks": simple_blocks,
    "detection": detection,
    "resnet_32x32": lambda resnet, shufflenet, model: resnet.create_resnet_32x32(model, "data", 3, 1, 10,
                                                                                    is_test=True),
    "resnet50": lambda resnet, shufflenet, model: resnet.create_resnet50(
        model, "data", 3, 1000, no_loss=True, no_bias=1),
    "resnext18": lambda resnet, shufflenet, model: resnet.create_resnext(
        model, "data", 3, 7, 18, 4, 8, label="label", no_bias=0, conv1_kernel=3, conv1_stride=1, final_avg_kernel=4,
        bn_epsilon=1e-3, bn_momentum=0.7),
    "shufflenet": lambda resnet, shufflenet, model: shufflenet.create_shufflenet(model, "data", 3, 10, label="label"),
}


def value(argument):
    found = [getattr(argument, name) for name in ("f", "i", "s") if argument.HasField(name)]
    found += [list(getattr(argument, name)) for name in ("floats", "ints", "strings") if getattr(argument, name)]
    return [f"{v:.6g}" if isinstance(v, float) else v for v in found]


def lines(net):
    """A NetDef, one line per operator, so that one sees what differs."""
    for op in net.op:
        arguments = ", ".join(f"{a.name}={value(a)}" for a in op.arg)
        yield f"{' '.join(op.output)} = {op.type}({' '.join(op.input)}) {arguments}"
    yield f"reads {' '.join(net.external_input)}"
    yield f"leaves {' '.join(net.external_output)}"


def build(name):
    from caffe2.python import model_helper
    from caffe2.python.models import resnet, shufflenet

    model = model_helper.ModelHelper(name, arg_scope={"order": "NCHW", "use_cudnn": False})
    NETS[name](resnet, shufflenet, model)
    return [*lines(model.param_init_net.Proto()), *lines(model.net.Proto())]


if __name__ == "__main__":
    for name in NETS:
        with open(os.path.join(sys.argv[1], name + ".txt"), "w") as file:
            file.write("\n".join(build(name)) + "\n")
