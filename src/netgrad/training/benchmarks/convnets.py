"""Times the nets of `netgrad.training.zoo.convnets` on random images: ``--model AlexNet --batch_size 32 --cpu``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.runtime.current import BenchmarkNet, CreateNet, RunNetOnce
from netgrad.runtime.housekeeping import GlobalInit
from netgrad.training import brew
from netgrad.training.zoo.convnets import MODELS


def AddParameterUpdate(model: Any) -> None:
    """Plain gradient descent, at a rate that leaves the parameters nearly as they are."""
    iteration = brew.iter(model, "iter")
    rate = model.net.LearningRate(iteration, "LR", base_lr=-1e-8, policy="step", stepsize=10000, gamma=0.999)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in model.params:
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)


def Benchmark(model_gen: Callable[..., tuple[Any, int]], arg: Any) -> list[float]:
    """Builds a net, fills its inputs, and times it.

    Args:
        model_gen: a function like those of the zoo: (order, cudnn_ws) -> (model, image size).
        arg: what `GetArgumentParser` makes.

    Returns:
        Milliseconds per run, followed by those of each operator where these are asked for.
    """
    model, size = model_gen(arg.order, arg.cudnn_ws)
    model.Proto().type = arg.net_type
    model.Proto().num_workers = arg.num_workers
    shape = [arg.batch_size, 3, size, size] if arg.order == "NCHW" else [arg.batch_size, size, size, 3]
    if arg.model == "MLP":
        shape = [arg.batch_size, size]
    model.param_init_net.GaussianFill([], "data", shape=shape, mean=0.0, std=1.0)
    model.param_init_net.UniformIntFill([], "label", shape=[arg.batch_size], min=0, max=999)
    if not arg.forward_only:
        model.AddGradientOperators(["loss"])
        AddParameterUpdate(model)
    print(f"{arg.model}: {'forward' if arg.forward_only else 'forward and backward'}, batches of {arg.batch_size}")
    if not arg.cpu:
        model.param_init_net.RunAllOnGPU()
        model.net.RunAllOnGPU()
    if arg.engine:
        for op in model.net.Proto().op:
            op.engine = arg.engine
    if arg.dump_model:
        for name, net in ((f"{arg.model}_init_batch_{arg.batch_size}", model.param_init_net), (arg.model, model.net)):
            with open(f"{name}.pbtxt", "w") as file:
                file.write(str(net.Proto()))
    RunNetOnce(model.param_init_net)
    CreateNet(model.net)
    times = BenchmarkNet(model.net.Proto().name, arg.warmup_iterations, arg.iterations, arg.layer_wise_benchmark)
    print(f"{times[0]:.3f} ms per run, {1000 * arg.batch_size / max(times[0], 1e-9):.1f} examples per second")
    for op, milliseconds in zip(model.net.Proto().op, times[1:], strict=False):
        print(f"{milliseconds:10.3f} ms  {op.type} -> {', '.join(op.output)}")
    return times


def GetArgumentParser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Times convolutional nets on random images.")
    parser.add_argument("--batch_size", type=int, default=128, help="images per run")
    parser.add_argument("--model", help=f"the net: {', '.join(MODELS)}")
    parser.add_argument("--order", default="NCHW", help="NCHW or NHWC")
    parser.add_argument("--cudnn_ws", type=int, help="limit for work space, in bytes; noted in the operators")
    parser.add_argument("--iterations", type=int, default=10, help="runs that are timed")
    parser.add_argument("--warmup_iterations", type=int, default=10, help="runs before these")
    parser.add_argument("--forward_only", action="store_true", help="no backward pass, no updates")
    parser.add_argument("--layer_wise_benchmark", action="store_true", help="time every operator as well")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU, not on a GPU")
    parser.add_argument("--engine", default="", help="engine of all operators")
    parser.add_argument("--dump_model", action="store_true", help="write both nets as text")
    parser.add_argument("--net_type", default="dag", help="type of the net")
    parser.add_argument("--num_workers", type=int, default=2, help="workers of the net")
    parser.add_argument("--use-nvtx", default=False, action="store_true", help="pass --caffe2_use_nvtx on")
    parser.add_argument("--htrace_span_log_path", help="pass --caffe2_htrace_span_log_path on")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = GetArgumentParser()
    args, flags = parser.parse_known_args(arguments)
    if not args.model:
        parser.print_help()
        return
    if args.model not in MODELS:
        parser.error(f"there is no model {args.model!r}; there are {', '.join(MODELS)}")
    if args.use_nvtx:
        flags.append("--caffe2_use_nvtx")
    if args.htrace_span_log_path:
        flags.append(f"--caffe2_htrace_span_log_path={args.htrace_span_log_path}")
    GlobalInit(["caffe2", "--caffe2_log_level=0", *flags])
    Benchmark(MODELS[args.model], args)
