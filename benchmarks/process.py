"""One contender and one net, in a process of its own that waits to be asked: `python -m benchmarks.process`.

It says a line of JSON when it is ready, one after each ``round`` that it reads, and one at the end of its input. Its
own module names nothing that Python 3.8 lacks, since Caffe2 runs in that.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

import numpy as np

#: training steps whose losses are compared before anything is timed
COMPARED = 3


def write_beginning(net, sizes, path):
    """Writes what all contenders begin with: the blobs that are fed, and the initial parameters, in their order."""
    from caffe2.python import workspace

    model, feeds = net.build(**sizes)
    workspace.ResetWorkspace()
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    arrays = {"feed " + name: value for name, value in feeds.items()}
    for parameter in model.GetParams():
        arrays["parameter " + str(parameter)] = workspace.FetchBlob(parameter)
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def read_beginning(path):
    """The blobs that are fed, and the initial parameters by name."""
    with np.load(path) as file:
        feeds = {key[5:]: file[key] for key in file.files if key.startswith("feed ")}
        parameters = {key[10:]: file[key] for key in file.files if key.startswith("parameter ")}
    return feeds, parameters


def prepare_net(net, sizes, feeds, parameters, keep=False):
    """A function that runs one step of a net; seconds that creating it took; the number of its operators."""
    from caffe2.python import core, workspace

    core.GlobalInit(["benchmarks", "--caffe2_log_level=2"])
    model, _ = net.build(**sizes)
    workspace.ResetWorkspace()
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    for name, value in parameters.items():
        workspace.FeedBlob(name, value)
    seen = net.seen or ["loss", str(model.GetParams()[-1])]
    options = {"keep": seen} if keep else {}
    workspace.CreateNet(model.net, **options)
    began = time.perf_counter()
    workspace.CreateNet(model.net, overwrite=True, **options)  # the first has loaded what all nets need
    seconds = time.perf_counter() - began
    name = model.net.Name()

    def step():
        workspace.RunNet(name)
        values = [workspace.FetchBlob(blob) for blob in seen]
        return float(np.sum(values[0]))

    return step, seconds, len(model.net.Proto().op)


def prepare(contender, net, quick, path):
    """A step function of a contender, as `prepare_net` gives it."""
    feeds, parameters = read_beginning(path)
    sizes = net.sized(quick)
    if contender.startswith("torch"):
        from benchmarks import rivals_torch

        step, seconds = rivals_torch.prepare(
            net.name, sizes, feeds, list(parameters.values()), last=contender == "torch-last" or (
                contender == "torch-bfloat16" and rivals_torch.has_layouts(net.name)),
            compiled=contender == "torch-compile", bfloat16=contender == "torch-bfloat16")
        return step, seconds, None
    return prepare_net(net, sizes, feeds, parameters, keep=contender == "netgrad-keep")


def _say(**values):
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.process")
    parser.add_argument("contender", help="or `beginning`, which writes FILE")
    parser.add_argument("net")
    parser.add_argument("file", help="what all begin with")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--processor-time", action="store_true")
    arguments = parser.parse_args()

    from benchmarks.catalogue import NETS

    net = NETS[arguments.net]
    if arguments.contender == "beginning":
        return write_beginning(net, net.sized(arguments.quick), arguments.file)
    step, seconds, operators = prepare(arguments.contender, net, arguments.quick, arguments.file)
    began = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - began
    losses += [step() for _ in range(COMPARED - 1)]
    _say(losses=losses, planning_ms=1e3 * seconds, first_ms=1e3 * first, operators=operators)
    now = time.process_time if arguments.processor_time else time.perf_counter
    for line in sys.stdin:
        if line.strip() != "round":
            break
        steps = 1 if arguments.quick else net.steps
        began = now()
        for _ in range(steps):
            step()
        _say(ms=1e3 * (now() - began) / steps)
    _say(peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
