"""Random tensors and random choices. Numbers come from the operator's own generator, the same on every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.graph.arguments import DType, Float, Int
from netgrad.graph.declaration import In, Operator, Out, counts
from netgrad.graph.example import Example, Step, Tensor
from netgrad.graph.rules import forbidden, no_gradient
from netgrad.graph.shapes import TensorType, data_dependent
from netgrad.ops._arrays import product
from netgrad.ops._axes import int_list, number
from netgrad.ops.fillers import SHAPE_ARGUMENTS, SHAPE_INPUT, filled_shape, filled_type, shape_input_only, shape_of
from netgrad.proto import caffe2_pb2


class _RandomFiller(Operator, abstract=True):
    """What the random fillers share."""

    inputs = [SHAPE_INPUT]
    outputs = [Out("output", "float32")]
    arguments = SHAPE_ARGUMENTS
    inplace = {(0, 0)}
    effects = {"random"}
    shape = shape_of("float32")
    shape_only = shape_input_only
    gradient = no_gradient


def _float32(xp: Any, values: Any, input: Any) -> Any:
    return xp.astype(xp.from_numpy(values, like=input), xp.float32)


class GaussianFill(_RandomFiller):
    """Normally distributed numbers."""

    arguments = [*SHAPE_ARGUMENTS, Float("mean", 0.0), Float("std", 1.0, "standard deviation")]
    example = Example({}, {"output": TensorType("float32", (2, 3))}, {"shape": [2, 3]})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, mean: float,
               std: float, op: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        if not std >= 0:
            raise ValueError(f"std is {std}, expected a standard deviation")
        return _float32(xp, op.rng.normal(dims) * std + mean, input)


def _fan(dims: tuple[int, ...], axis: int) -> int:
    """How many elements there are for each place on an axis."""
    if len(dims) <= axis or dims[axis] == 0:
        raise ValueError(f"shape {dims} has no axis {axis} to be scaled by, or nothing on it")
    return max(1, product(dims) // dims[axis])


class XavierFill(_RandomFiller):
    """Uniform numbers within sqrt(3 / fan_in) of zero; fan_in is the number of elements per first axis.

    Source: Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks.
    """

    example = Example({}, {"output": TensorType("float32", (2, 3))}, {"shape": [2, 3]})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, op: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        scale = (3 / _fan(dims, 0)) ** 0.5
        return _float32(xp, (op.rng.uniform(dims) * 2 - 1) * scale, input)


class MSRAFill(_RandomFiller):
    """Normal numbers of standard deviation sqrt(2 / fan_out); fan_out is the number of elements per second axis.

    Source: He et al. 2015, https://arxiv.org/abs/1502.01852.
    """

    example = Example({}, {"output": TensorType("float32", (2, 3))}, {"shape": [2, 3]})

    def kernel(xp: Any, input: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool, op: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        return _float32(xp, op.rng.normal(dims) * (2 / _fan(dims, 1)) ** 0.5, input)


_SHAPE_AND_BOUNDS = [
    In("shape", SHAPE_INPUT.doc, optional=True), In("min", "one number, instead of the argument", optional=True),
    In("max", "one number, instead of the argument", optional=True),
]


def _uniform_kernel(whole: bool) -> Callable[..., Any]:
    def kernel(xp: Any, shape: Any = None, min: Any = None, max: Any = None, *, wanted: Any, extra_shape: Any,
               input_as_shape: bool, low: Any, high: Any, op: Any) -> Any:
        dims = filled_shape(xp, shape, wanted, extra_shape, input_as_shape)
        kind = xp.int32 if whole else xp.float32
        if min is not None:
            if low is not None or high is not None:
                raise ValueError("the bounds are given twice: as arguments and as inputs")
            low, high = number(xp, min, "min"), number(xp, max, "max")
            if low > high:  # an empty range gives no rows
                return xp.zeros((0, *dims[1:]), dtype=kind)
        else:
            low, high = 0 if low is None else low, 1 if high is None else high
            if not low < high:
                raise ValueError(f"min is {low} and max is {high}: max must be the larger one")
        drawn = op.rng.integers(low, high + 1, dims) if whole else op.rng.uniform(dims) * (high - low) + low
        return xp.astype(xp.from_numpy(drawn, like=shape), kind)
    return kernel


class UniformFill(_RandomFiller):
    """Numbers that are equally likely between min and max."""

    inputs = _SHAPE_AND_BOUNDS
    num_inputs = counts(0, 1, 3)
    arguments = [*SHAPE_ARGUMENTS, Float("min", None, "0 unless given", as_="low"),
                 Float("max", None, "1 unless given", as_="high")]
    kernel = _uniform_kernel(whole=False)
    example = Example({}, {"output": TensorType("float32", (2, 3))}, {"shape": [2, 3]})

    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, **_: Any) -> TensorType:
        return filled_type("float32", types[:1], wanted, extra_shape, input_as_shape)


class UniformIntFill(_RandomFiller):
    """Integers that are equally likely from min to max, both included."""

    inputs = _SHAPE_AND_BOUNDS
    outputs = [Out("output", "int32")]
    num_inputs = counts(0, 1, 3)
    arguments = [*SHAPE_ARGUMENTS, Int("min", None, "0 unless given", as_="low"),
                 Int("max", None, "1 unless given", as_="high")]
    kernel = _uniform_kernel(whole=True)
    example = Example({}, {"output": TensorType("int32", (2,))}, {"shape": [2], "min": 0, "max": 5})

    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, **_: Any) -> TensorType:
        return filled_type("int32", types[:1], wanted, extra_shape, input_as_shape)


_INTEGERS: dict[int, str] = {caffe2_pb2.TensorProto.INT32: "int32", caffe2_pb2.TensorProto.INT64: "int64"}


class UniqueUniformFill(_RandomFiller):
    """Distinct integers from min to max, both included, none of which is to be avoided."""

    inputs = [SHAPE_INPUT, In("avoid", "integers that must not occur, of the wanted dtype", optional=True)]
    outputs = [Out("output", "int32 or int64")]
    arguments = [*SHAPE_ARGUMENTS, DType("dtype", caffe2_pb2.TensorProto.INT32, "INT32 or INT64"),
                 Int("min", None, as_="low"), Int("max", None, as_="high")]
    example = Example({}, {"output": TensorType("int32", (3,))}, {"shape": [3], "min": 0, "max": 10})

    def shape(*types: TensorType, wanted: Any, extra_shape: Any, input_as_shape: bool, dtype: int,
              **_: Any) -> TensorType:
        return filled_type(_INTEGERS.get(dtype), types[:1], wanted, extra_shape, input_as_shape)

    def kernel(xp: Any, input: Any = None, avoid: Any = None, *, wanted: Any, extra_shape: Any, input_as_shape: bool,
               dtype: int, low: int | None, high: int | None, op: Any) -> Any:
        dims = filled_shape(xp, input, wanted, extra_shape, input_as_shape)
        if dtype not in _INTEGERS or low is None or high is None or low >= high:
            raise ValueError(f"dtype is {dtype}, min {low} and max {high}: expected INT32 or INT64 and min < max")
        taken = set() if avoid is None else set(int_list(xp, avoid))
        room = high - low + 1 - sum(low <= k <= high for k in taken)
        size = product(dims)
        if size > room:
            raise ValueError(f"{size} distinct integers are asked for, but only {room} are there")
        chosen: list[int] = []
        while len(chosen) < size:
            if 2 * size > room:  # dense: draw an order of all that are allowed
                allowed = [k for k in range(low, high + 1) if k not in taken]
                chosen = [allowed[k] for k in op.rng.permutation(len(allowed))[:size]]
                break
            for k in op.rng.integers(low, high + 1, (size,)).tolist():
                if k not in taken and len(chosen) < size:
                    taken.add(k)
                    chosen.append(k)
        return xp.reshape(xp.asarray(chosen, dtype=xp.dtype_of(_INTEGERS[dtype])), dims)


class WeightedSample(Operator):
    """Draws one column of each row, with probabilities in proportion to its weights, and that column's value."""

    inputs = [In("sampling_weights", "(N, M), float32"), In("sampling_values", "like the weights", optional=True)]
    outputs = [
        Out("sampled_indexes", "(N, 1), int32", differentiable=False), Out("sampled_values", "(N, 1)", optional=True),
    ]
    effects = {"random"}
    shape = data_dependent(("int32", None), (None, None))
    gradient = forbidden()
    example = Example({"sampling_weights": [[1.0, 3.0]]}, {"sampled_indexes": TensorType("int32", (1, 1))}, wrt=())

    def kernel(xp: Any, weights: Any, values: Any = None, *, op: Any) -> Any:
        if weights.ndim != 2 or (values is not None and values.shape != weights.shape):
            raise ValueError(f"weights have shape {tuple(weights.shape)}: expected (N, M), and values likewise")
        if weights.shape[0] == 0 or weights.shape[1] == 0:
            empty = xp.zeros((0,), dtype=xp.int32)
            return (empty,) if values is None else (empty, values[:0, 0] if weights.shape[1] else values.reshape((0,)))
        sums = xp.to_numpy(weights).astype("float64").cumsum(axis=1)
        drawn = op.rng.uniform((weights.shape[0], 1)) * sums[:, -1:]
        columns = (sums <= drawn).sum(axis=1, keepdims=True).clip(0, weights.shape[1] - 1)
        places = xp.from_numpy(columns, like=weights)
        chosen = xp.astype(places, xp.int32)
        return chosen if values is None else (chosen, xp.take_along_axis(values, xp.astype(places, xp.int64), axis=1))


class WeightedMultiSampling(Operator):
    """Draws indices in proportion to the steps of a cumulative distribution."""

    inputs = [In("sampling_cdf", "1-D float32, not decreasing"),
              In("shape_tensor", "its shape is that of the result", optional=True, shape_only=True)]
    outputs = [Out("sampled_indexes", "int32", differentiable=False)]
    arguments = [Int("num_samples", 0, "how many, without the second input")]
    effects = {"random"}
    example = Example({"sampling_cdf": [0.5, 1.0]}, {"sampled_indexes": TensorType("int32", (3,))}, {"num_samples": 3})

    def shape(cdf: TensorType, like: TensorType | None = None, *, num_samples: int) -> TensorType:
        if cdf.dims == (0,):
            return TensorType("int32", (0,))
        return TensorType("int32", like.dims if like else (num_samples,))

    def kernel(xp: Any, cdf: Any, shape_tensor: Any = None, *, num_samples: int, op: Any) -> Any:
        dims = (num_samples,) if shape_tensor is None else tuple(shape_tensor.shape)
        if cdf.ndim != 1 or (shape_tensor is not None and num_samples):
            raise ValueError(f"the distribution has shape {tuple(cdf.shape)}: expected one dimension, and the number "
                             "of samples either by num_samples or by the second input")
        steps = xp.to_numpy(cdf)
        if steps.size == 0:
            return xp.zeros((0,), dtype=xp.int32)
        drawn = steps.searchsorted((op.rng.uniform(dims) * steps[-1]).astype(steps.dtype), side="left")
        return xp.astype(xp.from_numpy(drawn, like=cdf), xp.int32)


class ReservoirSampling(Operator):
    """Keeps a uniform sample of all rows that ever came by, in place."""

    inputs = [
        In("RESERVOIR", "(rows kept, ...), or records"), In("NUM_VISITED", "one int64"),
        In("DATA", "(N, ...), or packed records"), In("MUTEX"),
        In("OBJECT_ID", "(N,), int64: rows of one object count once", optional=True),
        In("OBJECT_TO_POS_MAP_IN", "a map of int64 to int32", optional=True),
        In("POS_TO_OBJECT_IN", "1-D int64", optional=True),
    ]
    outputs = [
        Out("RESERVOIR"), Out("NUM_VISITED"), Out("OBJECT_TO_POS_MAP", optional=True),
        Out("POS_TO_OBJECT", optional=True),
    ]
    num_inputs = counts(4, 7)
    num_outputs = counts(2, 4)
    num_inputs_outputs = staticmethod(lambda inputs, outputs: (inputs, outputs) in ((4, 2), (7, 4)))
    arguments = [Int("num_to_collect", -1, "rows to keep")]
    inplace_required = {(0, 0), (1, 1), (5, 2), (6, 3)}
    effects = {"random", "state"}
    host = True
    gradient = forbidden()
    example = Example(
        {"RESERVOIR": [[1.0], [2.0]], "NUM_VISITED": Tensor([2], "int64"), "DATA": [[3.0]]},
        {"RESERVOIR": TensorType("float32", (2, 1)), "NUM_VISITED": TensorType("int64", (1,))},
        {"num_to_collect": 2},
        before=(Step("CreateMutex", outputs=("MUTEX",)),),
        inputs=("RESERVOIR", "NUM_VISITED", "DATA", "MUTEX"))

    def kernel(xp: Any, reservoir: Any, num_visited: Any, data: Any, mutex: Any, object_id: Any = None,
               object_to_pos: Any = None, pos_to_object: Any = None, *, num_to_collect: int, op: Any) -> Any:
        if num_to_collect <= 0:
            raise ValueError(f"num_to_collect is {num_to_collect}, expected the number of rows to keep")
        rows = list(reservoir)[:num_to_collect]
        visited = int(num_visited.reshape(-1)[0])
        places = {} if object_to_pos is None else dict(object_to_pos)
        owners = [] if pos_to_object is None else pos_to_object.reshape(-1).tolist()
        if not rows:  # nothing yet, or lost with a file that keeps no records
            visited, places, owners = 0, {}, []
        for k in range(len(data)):
            if object_id is not None and int(object_id[k]) in places:
                continue
            place = len(rows) if visited < num_to_collect else int(op.rng.integers(0, visited + 1))
            visited += 1
            if place >= num_to_collect:
                continue
            if place == len(rows):
                rows.append(data[k])
                owners.append(None)
            else:
                rows[place] = data[k]
                places.pop(owners[place], None) if object_id is not None else None
            if object_id is not None:
                owners[place] = int(object_id[k])
                places[owners[place]] = place
        if isinstance(data, list):  # packed records
            kept = type(data)(rows)
        else:
            kept = xp.stack(rows) if rows else data[:0]
        counted = xp.asarray([visited], dtype=xp.int64).reshape(num_visited.shape)
        if object_id is None:
            return kept, counted
        return kept, counted, type(object_to_pos)(places), xp.asarray(owners, dtype=xp.int64)
