"""Caffe2's `control_ops_grad`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.autodiff.control_ops": """
        disambiguate_grad_if_op_output gen_do_gradient gen_if_gradient gen_while_gradient getNetArgument""",
}, {"caffe2_pb2": "netgrad.proto.caffe2_pb2"})
