"""Models on several devices as text. Run by Caffe2's Python, this file writes what `parallel_nets.txt` holds."""

import sys

from caffe2.python import brew, data_parallel_model, model_helper, optimizer

CASES = {
    "host": {"cpu_device": True},
    "host, three devices from 1": {"cpu_device": True, "devices": [1, 2, 3]},
    "host, shared parameters": {"cpu_device": True, "shared_model": True},
    "GPUs": {"cpu_device": False},
    "four GPUs": {"cpu_device": False, "devices": [0, 1, 2, 3]},
    "GPUs, NCCL": {"cpu_device": False, "use_nccl": True},
    "host, combined": {"cpu_device": True, "combine_spatial_bn": True},
    "GPUs, combined": {"cpu_device": False, "combine_spatial_bn": True},
    "host, BMUF": {"cpu_device": True, "bmuf": {"nesterov": True, "reset_momentum_sgd": True}},
}


def forward(normalized):
    def build(model, loss_scale):
        x = brew.relu(model, brew.fc(model, "data", "fc1", 6, 5), "hidden")
        if normalized:
            x = brew.spatial_bn(model, x, "bn", 5, is_test=False)
        _, loss = model.net.SoftmaxWithLoss([brew.fc(model, x, "fc2", 5, 3), "label"], ["softmax", "loss"])
        return [model.net.Scale(loss, scale=loss_scale)]

    return build


def update(model):
    rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-0.1)
    for param in model.GetParams():
        momentum = model.param_init_net.ConstantFill([param], param + "_momentum", value=0.0)
        grad = model.param_to_grad[param]
        model.net.MomentumSGDUpdate([grad, momentum, rate, param], [grad, momentum, param], momentum=0.9)


def line(op):
    place = op.device_option
    where = f" @{place.device_type}:{place.device_id}" if place.device_type else ""
    return f"  {op.type} {' '.join(op.input)} -> {' '.join(op.output)}{where}" + (f" {op.name}" if op.name else "")


def text(name):
    options = dict(CASES[name])
    bmuf = options.pop("bmuf", None)
    options.setdefault("devices", [0, 1])
    model = model_helper.ModelHelper(name="model")
    build = forward(options.get("combine_spatial_bn"))
    if bmuf is None:
        data_parallel_model.Parallelize(
            model, lambda m: None, build,
            optimizer_builder_fun=lambda m: optimizer.build_sgd(m, 0.1, policy="fixed", momentum=0.9), **options)
    else:
        data_parallel_model.Parallelize_BMUF(model, lambda m: None, build, update, **dict(options, **bmuf))
    lines = ["# " + name]
    init = [line(op) for op in model.param_init_net.Proto().op]
    copies = [entry for entry in init if entry.startswith("  Copy")]  # Caffe2's order of these follows a set
    lines += ["init"] + [entry for entry in init if not entry.startswith("  Copy")] + sorted(copies)
    nets = [net[0] if isinstance(net, tuple) else net for net in model._data_parallel_model_nets]
    for net in nets + model._data_parallel_model_init_nets[1:]:
        lines += ["net"] + [line(op) for op in net.Proto().op]
    number = "" if bmuf is not None else model._optimizer._instance_num
    return "\n".join(lines).replace(f"SgdOptimizer_{number}", "Sgd")


if __name__ == "__main__":
    sys.stdout.write("\n".join(text(name) for name in CASES) + "\n")
