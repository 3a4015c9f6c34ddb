"""Caffe2's `models.resnet`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.resnet": """
        RESNEXT_BLOCK_CONFIG RESNEXT_STRIDES ResNetBuilder create_resnet50 create_resnet_32x32 create_resnext log""",
}, {"brew": "caffe2.python.brew"})
