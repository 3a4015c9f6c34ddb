"""Operators that imitate the arithmetic of an accelerator (NNPI), fused as the accelerator fuses them.

The operators themselves are not here; nets of them can be read, changed and written.
"""

from __future__ import annotations

from netgrad.proto import caffe2_pb2
from netgrad.tools.fusion import fuse, pairs

_QUANTIZE, _DEQUANTIZE = "Int8QuantizeNNPI", "Int8DequantizeNNPI"
#: what ends in a quantization -> the operator of both
_WITH_QUANTIZATION = {
    "TanhFakeFp16NNPI": "TanhQuantFakeFp16NNPI",
    "LayerNormFakeFP16NNPI": "LayerNormInt8QuantizeFakeNNPI",
}


def fakeFp16FuseOps(net: caffe2_pb2.NetDef) -> caffe2_pb2.NetDef:
    """A copy of a net in which Swish between dequantization and quantization, and Tanh and LayerNorm before
    quantization, are one operator each."""
    fused = caffe2_pb2.NetDef()
    fused.CopyFrom(net)
    for pair in pairs(fused, "SwishFakeFp16NNPI", _QUANTIZE):
        before = next((p for p in pairs(fused, _DEQUANTIZE, "SwishFakeFp16NNPI") if p.second == pair.first), None)
        if before is not None:
            source = list(fused.op[before.first].input)
            op = caffe2_pb2.OperatorDef(type="SwishFakeInt8NNPI", input=source, output=[""])
            op.arg.extend(fused.op[pair.second].arg)
            fuse(fused, pair, op)
            del fused.op[before.first]
    for type, both in _WITH_QUANTIZATION.items():
        for pair in pairs(fused, type, _QUANTIZE):
            op = caffe2_pb2.OperatorDef()
            op.CopyFrom(fused.op[pair.first])
            op.type = both
            op.arg.extend(fused.op[pair.second].arg)
            fuse(fused, pair, op)
    return fused
