"""Nets and backward passes as lines, for Caffe2's Python and for ours.

``y, z = Type(a, b, axis=1) | device=CUDA:1 engine=CUDNN`` is an operator. Sections begin with ``## name`` and hold
operators, then ``key: value`` lines. This module runs on Python 3.8.
"""

import contextlib
import json
import re


def sections(text):
    """Name -> (operator lines, {key: value})."""
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        name, *lines = part.strip().splitlines()
        options = dict(re.split(r":\s*", line, maxsplit=1) for line in lines if re.match(r"[a-z ]+:( |$)", line))
        found[name] = [line for line in lines if not re.match(r"[a-z ]+:( |$)", line)], options
    return found


def read_operator(line, create, pb2):
    """An OperatorDef; ``create`` is CreateOperator, ``pb2`` the module of messages."""
    body, _, notes = line.partition(" | ")
    outputs, type, inside = re.match(r"(?:(.*) = )?(\w+)\((.*)\)$", body).groups()
    inputs, arguments = [], {}
    for item in _items(inside):
        key, equals, value = item.partition("=")
        if equals:
            arguments[key] = json.loads(value)
        else:
            inputs.append(item)
    op = create(type, inputs, outputs.split(", ") if outputs else [], **arguments)
    for note in notes.split():
        key, _, value = note.partition("=")
        if key == "device":
            kind, _, number = value.partition(":")
            op.device_option.device_type = pb2.DeviceTypeProto.Value("PROTO_" + kind)
            op.device_option.device_id = int(number)
        elif key == "node_name":
            op.device_option.node_name = value
        elif key == "random_seed":
            op.device_option.random_seed = int(value)
        elif key == "extra_info":
            op.device_option.extra_info.append(value)
        elif key == "gradient":
            op.is_gradient_op = True
        elif key == "after":
            op.control_input.append(value)
        else:
            setattr(op, key, value)
    return op


def _items(text):
    """Items between commas, but for those in brackets."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text + ","):
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    return [item for item in found if item]


def write_operator(op, pb2):
    """The line of an OperatorDef."""
    inside = list(op.input) + [f"{a.name}={json.dumps(_value(a))}" for a in sorted(op.arg, key=lambda a: a.name)]
    line = f"{op.type}({', '.join(inside)})"
    if op.output:
        line = f"{', '.join(op.output)} = {line}"
    notes = []
    if op.HasField("device_option"):
        device = op.device_option
        kind = pb2.DeviceTypeProto.Name(device.device_type)[len("PROTO_") :]
        notes.append(f"device={kind}:{device.device_id}")
        notes += [f"{key}={getattr(device, key)}" for key in ("node_name", "random_seed") if device.HasField(key)]
        notes += [f"extra_info={info}" for info in device.extra_info]
    notes += [f"{key}={getattr(op, key)}" for key in ("engine", "name", "debug_info") if getattr(op, key)]
    notes += [f"after={name}" for name in op.control_input]
    if op.is_gradient_op:
        notes.append("gradient")
    return line + (" | " + " ".join(notes) if notes else "")


def _value(argument):
    if argument.HasField("f"):
        return float(f"{argument.f:.6g}")
    if argument.HasField("i"):
        return argument.i
    if argument.HasField("s"):
        return argument.s.decode()
    return [float(f"{f:.6g}") for f in argument.floats] or list(argument.ints) or [s.decode() for s in argument.strings]


def read_ys(text, core):
    """The argument ys: ``a, b`` is a list, ``a=g, b=None, c=(i, v)`` a dict; ``&a`` is a reference."""

    def key(name):
        return core.BlobReference(name[1:]) if name.startswith("&") else name

    if text == "{}":
        return {}
    items = [item.partition("=") for item in _items(text)]
    if not any(equals for _, equals, _ in items):
        return [key(name) for name, _, _ in items]
    return {
        key(name): None
        if value == "None"
        else core.GradientSlice(*_items(value[1:-1]))
        if value.startswith("(")
        else value
        for name, _, value in items
    }


def answer(lines, options, core, pb2, kind=lambda error: type(error).__name__):
    """What GetBackwardPass says to a section: (lines of operators, {"map": …} or {"error": its kind})."""
    ops = [read_operator(line, core.CreateOperator, pb2) for line in lines]
    ys = read_ys(options["ys"], core)
    with contextlib.ExitStack() as scopes:
        if "scope" in options:
            scopes.enter_context(core.NameScope(options["scope"]))
        if "device scope" in options:
            kind, _, number = options["device scope"].partition(":")
            scopes.enter_context(core.DeviceScope(core.DeviceOption(getattr(pb2, kind), int(number))))
        try:
            found, gradients = core.GradientRegistry.GetBackwardPass(ops[int(options.get("skip", 0)) :], ys)
        except Exception as error:
            return [], {"error": kind(error)}
    pairs = [
        f"{blob}=({g.indices}, {g.values})" if isinstance(g, core.GradientSlice) else f"{blob}={g}"
        for blob, g in sorted(gradients.items(), key=lambda item: str(item[0]))
    ]
    return [write_operator(op, pb2) for op in found], {"map": ", ".join(pairs)}


def read_map(text):
    """Blob -> name of its gradient, or (indices, values)."""
    pairs = [item.partition("=") for item in _items(text)]
    return {blob: tuple(_items(value[1:-1])) if value.startswith("(") else value for blob, _, value in pairs}
