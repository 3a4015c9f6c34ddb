"""Nets with If and Do, written through the API that Caffe2 and netgrad share, and a form of operators to compare.

``ask_caffe2_control.py`` runs this under Caffe2, so it keeps to Python 3.8 and to the module ``core`` that it is given.
"""


def forward_nets(core, util):
    """Name -> (net, ys). ``core`` and ``util`` are Caffe2's modules ``core`` and ``control_ops_util``."""

    def net(name, *lines):
        made = core.Net(name)
        for type, inputs, outputs in lines:
            getattr(made, type)(inputs.split(), outputs.split())
        return made

    def program(*lines):
        made = core.Net("program")
        for name in ("x", "y"):
            made.GivenTensorFill([], name, shape=[1], values=[2.0])
        for name in ("z", "w"):
            made.GivenTensorFill([], name, shape=[1], values=[0.0])
        made.GT(["x", "y"], "test")
        for type, inputs, outputs in lines:
            getattr(made, type)(inputs.split(), outputs.split())
        return made

    scope = {"x", "y", "z", "w", "test"}

    both = program()
    util.add_if_op(both, "test", scope, net("a", ("Mul", "x y", "z")), net("b", ("Sub", "x y", "z")))
    both.Tanh("z", "out")

    one = program()
    util.add_if_op(one, "test", scope, net("a", ("Tanh", "x", "t"), ("Mul", "t y", "z")))
    one.Relu("z", "out")

    shared = program()
    util.add_if_op(shared, "test", scope, net("a", ("Mul", "x y", "z")), net("b", ("Add", "x x", "z")))
    shared.Tanh("x", "t")
    shared.Sub(["z", "t"], "out")

    inner = core.Net("a")
    inner.GT(["x", "y"], "inner_test")
    util.add_if_op(inner, "inner_test", scope | {"inner_test"}, net("c", ("Mul", "x x", "z")),
                   net("d", ("Sub", "y x", "z")))
    nested = program()
    util.add_if_op(nested, "test", scope, inner, net("b", ("Mul", "y y", "z")))
    nested.Sigmoid("z", "out")

    several = program()
    util.add_if_op(several, "test", scope, net("a", ("Mul", "x y", "z")), net("b", ("Tanh", "y", "z")))
    several.Tanh("z", "u")
    util.add_if_op(several, "test", scope | {"u"}, net("c", ("Mul", "u x", "u2"), ("Tanh", "u2", "w")),
                   net("d", ("Mul", "u y", "w")))
    several.Tanh("w", "out")

    do = program()
    do.CreateScope([], "stack")
    do.Do(["x", "y", "stack"], ["out", "stack"], net=net("s", ("Mul", "p q", "h"), ("Sigmoid", "h", "r")).Proto(),
          inner_blobs=["p", "q", "r"], outer_blobs_idx=[0, 1, 2])
    return {"both branches": both, "one branch": one, "shared with the outside": shared, "nested": nested,
            "one after the other": several, "Do": do}


def form(op):
    """An operator as lists and strings, without what depends on Caffe2's hash seed.

    That is the order of the blobs of If and Do, and of neighbouring copies, fills and sums.

    Nor are the inputs of an If compared: Caffe2 leaves out what its fills read.
    """
    nets = {a.name: ordered([form(each) for each in a.n.op]) for a in op.arg if a.HasField("n")}
    made = {"type": op.type, "gradient": bool(op.is_gradient_op), "nets": nets}
    arguments = {a.name: a for a in op.arg}
    if op.type == "Do":
        blobs = [bare(name) for name in list(op.input)[:-1] + list(op.output)[:-1]]
        inner = [name.decode() for name in arguments["inner_blobs"].strings]
        made["bound"] = dict(zip(inner, (blobs[k] for k in arguments["outer_blobs_idx"].ints)))
        made["saved"] = sorted(bare(name.decode()) for name in arguments["saved_fwd_blobs"].strings)
    if op.type in ("If", "Do"):
        made["inputs"] = sorted(map(bare, op.input)) if op.type == "Do" else []
        made["outputs"] = sorted(map(bare, op.output))
    else:
        made["inputs"], made["outputs"] = list(op.input), list(op.output)
        made["values"] = sorted((a.name, a.f) for a in op.arg if a.HasField("f"))
    made["device"] = list(op.device_option.extra_info)
    return made


def bare(name):
    """The name of a blob without that of the net in front, which depends on what other nets there are."""
    return name.rpartition("/workspace_")[1] + name.rpartition("/workspace_")[2]


def ordered(ops):
    """Neighbouring copies, fills and sums sorted."""
    made, run = [], []
    for op in ops:
        if op["type"] in ("Copy", "ConstantFill", "Sum"):
            run.append(op)
        else:
            made += [*sorted(run, key=lambda each: each["outputs"]), op]
            run = []
    return made + sorted(run, key=lambda each: each["outputs"])


def answer(core, net):
    """The gradient operators of a net's blob ``out``, and the map."""
    ops, gradients = core.GradientRegistry.GetBackwardPass(list(net.Proto().op), {"out": "out_grad"})
    return {"ops": [form(op) for op in ops], "map": {str(k): str(v) for k, v in gradients.items()}}
