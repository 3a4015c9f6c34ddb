"""Gradient functions as users register them, for Caffe2 and for us: the same nets are asked of both."""


def register(core):
    """Registers a rule for each operator type that `caffe2_nets.txt` makes up."""
    Op, rule = core.CreateOperator, core.GradientRegistry.RegisterGradient

    @rule("MyPyOp")
    def one(op, given):
        return Op("MyPyOpGradient", [op.input[0], given[0]], [op.input[0] + "_grad"]), [op.input[0] + "_grad"]

    @rule("MyPyOpBR")
    def reference(op, given):
        made = core.BlobReference(op.input[0] + "_grad")
        return Op("MyPyOpGradient", [op.input[0], given[0]], [made]), [made]

    @rule("MyPyOpOut")
    def foreign(op, given):
        return Op("MyPyOpGradient", ["constant_elsewhere", given[0]], [op.input[0] + "_grad"]), [op.input[0] + "_grad"]

    @rule("MyPyOpNone")
    def nothing(op, given):
        return None, [None]

    @rule("MyPyOpTuple")
    def tuple_of_operators(op, given):
        return (Op("MyPyOpGradient", [given[0]], [op.input[0] + "_grad"]),), [op.input[0] + "_grad"]

    @rule("MyPyOpLocal")
    def local(op, given):
        return [Op("G1", [given[0]], ["tmp_local"]), Op("G2", ["tmp_local"], [op.input[0] + "_grad"])], [
            op.input[0] + "_grad"
        ]

    @rule("MyPyOpReread")
    def reread(op, given):
        x, v = (name + "_grad" for name in op.input)
        return [Op("G1", [given[0]], [x]), Op("G2", [x], [v])], [x, v]

    @rule("MyShort")
    def short(op, given):
        return [], ["only_one"]

    @rule("MySparse2")
    def two_devices(op, given):
        indices, values = (op.input[0] + "_grad_" + part for part in ("indices", "values"))
        return [
            Op("GI", [given[0]], [indices], device_option=core.DeviceOption(1, 0)),
            Op("GV", [given[0]], [values], device_option=core.DeviceOption(1, 1)),
        ], [core.GradientSlice(indices, values)]

    @rule("MySparse3")
    def computed_slice(op, given):
        indices, values = (op.input[0] + "_grad_" + part for part in ("indices", "values"))
        return [Op("GIV", [given[0]], [indices, values])], [core.GradientSlice(indices, values)]
