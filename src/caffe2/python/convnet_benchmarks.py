"""Caffe2's `convnet_benchmarks`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.convnets": "AlexNet Inception MLP OverFeat VGGA",
    "netgrad.training.benchmarks.convnets": "AddParameterUpdate Benchmark GetArgumentParser",
}, {
    "workspace": "caffe2.python.workspace",
    "brew": "caffe2.python.brew",
    "model_helper": "caffe2.python.model_helper",
})

if __name__ == "__main__":
    from netgrad.training.benchmarks.convnets import main

    main()
