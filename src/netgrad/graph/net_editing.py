"""Changes to operators that a net has already: insertion, rerouting, devices, seeds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.graph import provenance
from netgrad.graph.net_base import NetBase
from netgrad.graph.remapping import remap_input
from netgrad.proto import caffe2_pb2


class NetEditing(NetBase):
    """Edits in place."""

    def insert_op_at_idx(self, op: Any, op_idx: int) -> None:
        """Puts an operator before the one at a position; what it reads and nobody writes becomes an external input."""
        if op_idx < 0:
            raise AssertionError(f"an operator cannot be put at position {op_idx}")
        self._net.op.insert(op_idx, op)
        code, offset = provenance.caller()
        self._provenance.insert(op_idx, op.type, op.output[0] if op.output else "", code, offset)
        self.refresh()
        self._net.external_input.extend([blob for blob in dict.fromkeys(op.input) if not self.BlobIsDefined(blob)])

    def reroute_tensor(self, tensor: Any, new_producer: Any, can_modify: Collection[Any] | None = None) -> int:
        """Inserts an operator that reads a blob, and makes readers of the blob read its first output instead.

        Args:
            tensor: the blob, which no operator overwrites.
            new_producer: the operator; it is put behind the last producer of its inputs.
            can_modify: the operators that may be changed; none if absent.

        Returns:
            How many operators were changed.
        """
        name = str(tensor)
        first_writer: dict[str, int] = {}
        for k, op in enumerate(self._net.op):
            for output in op.output:
                first_writer.setdefault(output, k)
        external = set(self._net.external_input)
        sources = [first_writer.get(blob, -1) for blob in new_producer.input if blob not in external]
        position = 1 + max(sources, default=-1)
        # messages in can_modify are views of operators of this net, which insertion would move under them
        wanted = {op.SerializeToString(deterministic=True) for op in can_modify or ()}
        self.insert_op_at_idx(new_producer, position)
        new_name = new_producer.output[0]
        if name in self._net.external_output:
            renamed = [new_name if blob == name else blob for blob in self._net.external_output]
            del self._net.external_output[:]
            self._net.external_output.extend(renamed)
        changed = 0
        for op in self._net.op:
            if op.SerializeToString(deterministic=True) in wanted:
                remap_input(op, {name: new_name})
                changed += 1
        return changed

    def set_rand_seed(self, seed: int = 100, sequence_seed: bool = True, seed_on_op_def: bool = False) -> None:
        """Gives every operator a random seed: ``seed`` plus its position, or one of its definition, or ``seed``."""
        if sequence_seed and seed_on_op_def:
            raise AssertionError("sequence_seed and seed_on_op_def exclude each other")
        for position, op in enumerate(self._net.op):
            if sequence_seed:
                own = seed + position
            elif seed_on_op_def:
                own = _digest(op, seed)
            else:
                own = seed
            op.device_option.random_seed = own

    def RunAllOnGPU(self, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        """Sets the net's device to a GPU, with the engine CUDNN on every operator if asked; step nets likewise."""
        self._RunAllOnGPU(self._net, gpu_id, use_cudnn)

    @staticmethod
    def _RunAllOnGPU(net: caffe2_pb2.NetDef, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        net.device_option.CopyFrom(caffe2_pb2.DeviceOption(device_type=caffe2_pb2.PROTO_CUDA, device_id=gpu_id))
        for op in net.op:
            if use_cudnn:
                op.engine = "CUDNN"
            if op.type == "RecurrentNetwork":
                for argument in op.arg:
                    if argument.name == "step_net":
                        NetEditing._RunAllOnGPU(argument.n, gpu_id, use_cudnn)

    def RunAllOnMKL(self) -> None:
        """Sets the net's device to MKLDNN."""
        self._net.device_option.CopyFrom(caffe2_pb2.DeviceOption(device_type=caffe2_pb2.PROTO_MKLDNN))

    def RunAllOnIDEEP(self) -> None:
        """Sets the net's device to IDEEP."""
        self._net.device_option.CopyFrom(caffe2_pb2.DeviceOption(device_type=caffe2_pb2.PROTO_IDEEP))

    def PopulateProtoWithFileName(self) -> None:
        """Names every operator after the line that wrote it: ``file:line:function``."""
        for position, op in enumerate(self._net.op):
            line = self._provenance.line_of(position, op)
            if line is not None:
                op.name = ":".join(map(str, line))


def _digest(op: Any, seed: int) -> int:
    import zlib

    return zlib.crc32(op.SerializeToString(deterministic=True), seed & 0xFFFFFFFF)
