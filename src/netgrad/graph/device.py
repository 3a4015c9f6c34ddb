"""Device options: which device an operator runs on, and when two options mean the same one."""

from __future__ import annotations

from collections.abc import Iterable

from netgrad.proto import caffe2_pb2

CPU = caffe2_pb2.PROTO_CPU
CUDA = caffe2_pb2.PROTO_CUDA
HIP = caffe2_pb2.PROTO_HIP


def IsGPUDeviceType(device_type: int) -> bool:
    return device_type in (CUDA, HIP)


def device_type_name(device_type: int) -> str:
    """ "CPU", "CUDA", ...; the number where it has no name."""
    try:
        return str(caffe2_pb2.DeviceTypeProto.Name(device_type)).removeprefix("PROTO_")
    except ValueError:
        return str(device_type)


def describe_device(option: caffe2_pb2.DeviceOption | None) -> str:
    """ "CUDA:1", "CPU", with the node where there is one."""
    if option is None:
        return "CPU"
    name = device_type_name(option.device_type)
    if option.device_type != CPU:
        name += f":{option.device_id}"
    return f"{name} on {option.node_name}" if option.node_name else name


def DeviceOption(
    device_type: int,
    device_id: int = 0,
    random_seed: int | None = None,
    node_name: str | None = None,
    numa_node_id: int | None = None,
    extra_info: Iterable[str] | None = None,
) -> caffe2_pb2.DeviceOption:
    """A device option.

    Args:
        device_type: a value of ``caffe2_pb2.DeviceTypeProto``, such as ``caffe2_pb2.CUDA``.
        device_id: which of that type.
        random_seed: the seed of an operator on it.
        node_name: the machine, in distributed plans.
        numa_node_id: for the CPU only.
        extra_info: strings for whoever reads them, of the form "key:value".
    """
    option = caffe2_pb2.DeviceOption(device_type=device_type, device_id=device_id)
    if node_name is not None:
        option.node_name = node_name
    if random_seed is not None:
        option.random_seed = random_seed
    if numa_node_id is not None:
        if device_type != CPU:
            raise AssertionError(f"numa_node_id belongs to CPU devices, not to {device_type_name(device_type)}")
        option.numa_node_id = numa_node_id
    if extra_info is not None:
        option.extra_info.extend(extra_info)
    return option


def device_option_equal(
    opt1: caffe2_pb2.DeviceOption | None,
    opt2: caffe2_pb2.DeviceOption | None,
    ignore_node_name: bool = True,
    ignore_random_seed: bool = True,
) -> bool:
    """Whether two options mean one device: same type and, but for the CPU, same id. An unset option is the CPU."""
    one, other = opt1 or caffe2_pb2.DeviceOption(), opt2 or caffe2_pb2.DeviceOption()
    if not ignore_node_name and one.node_name != other.node_name:
        return False
    if not ignore_random_seed and one.random_seed != other.random_seed:
        return False
    return one.device_type == other.device_type and (one.device_type == CPU or one.device_id == other.device_id)


def device_equal(src: caffe2_pb2.DeviceOption, dst: caffe2_pb2.DeviceOption) -> bool:
    """Whether type and id agree field by field."""
    return src.device_type == dst.device_type and src.device_id == dst.device_id
