"""Convolutions moved from channels first to channels last."""

from __future__ import annotations

from netgrad.proto import caffe2_pb2
from netgrad.tools.nomnigraph.module import NNModule
from netgrad.tools.nomnigraph.nodes import NeuralNetOperator, Node


def transpose_network(nn: NNModule) -> None:
    """Makes every convolution with order NCHW one with order NHWC; other operators see what they saw before.

    Images and filters are transposed once each, however many convolutions read them, and what goes from one
    convolution to the next is not transposed back and forth.
    """
    last: dict[Node, Node] = {}

    def channels_last(tensor: Node) -> Node:
        """The tensor with its channels last, made when first asked for."""
        if tensor not in last:
            last[tensor] = _through(nn, "NCHW2NHWC", tensor)
        return last[tensor]

    for node in nn.controlFlow:
        op = node.annotation.operator_def
        if node.name != "Conv" or op is None or _order(op) != b"NCHW":
            continue
        inputs, (output, *_) = node.inputs, node.outputs
        for edge in list(node.in_edges):
            nn.deleteEdge(edge)
        for k, tensor in enumerate(inputs):
            nn.createEdge(channels_last(tensor) if k < 2 else tensor, node)
        nn.deleteEdge(node.out_edges[0])
        last[output] = result = nn.createUniqueDataNode(output.name)
        nn.createEdge(node, result)
        back = nn.createNode(NeuralNetOperator("NHWC2NCHW"))
        nn.createEdge(result, back)
        nn.createEdge(back, output)
        changed = caffe2_pb2.OperatorDef()
        changed.CopyFrom(op)
        kept = [argument for argument in op.arg if argument.name != "order"]
        del changed.arg[:]
        changed.arg.extend([*kept, caffe2_pb2.Argument(name="order", s=b"NHWC")])
        node.annotation.operator_def = changed


def _order(op: caffe2_pb2.OperatorDef) -> bytes:
    return next((argument.s for argument in op.arg if argument.name == "order"), b"NCHW")


def _through(nn: NNModule, type: str, tensor: Node) -> Node:
    """What an operator of one input makes of a tensor."""
    node, result = nn.createNode(NeuralNetOperator(type)), nn.createUniqueDataNode(tensor.name)
    nn.createEdge(tensor, node)
    nn.createEdge(node, result)
    return result
