"""Counters, flags and locks that several nets share, statistics, timers. The blobs are opaque."""

from __future__ import annotations

import time
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Step, Tensor
from netgrad.graph.rules import RuleFunction, forbidden
from netgrad.graph.shapes import Fixed, TensorType
from netgrad.ops._shared_state import Counter, Flag, Mutex, Registry, Timer, global_registry
from netgrad.ops._strings import string_array

_FLAG = Fixed((TensorType("bool", ()),))
_ONE_FLAG = Fixed((TensorType("bool", (1,)),))
_COUNT = Fixed((TensorType("int64", ()),))
_ONE_COUNT = Fixed((TensorType("int64", (1,)),))


def _int64(xp: Any, value: int) -> Any:
    return xp.asarray(value, dtype=xp.int64)


def _bool(xp: Any, value: bool) -> Any:
    return xp.asarray(value, dtype=xp.bool)


def _true(xp: Any, flag: Any, what: str) -> bool:
    if flag.size != 1:
        raise ValueError(f"{what} has shape {flag.shape}, expected one element")
    return bool(flag.reshape(-1)[0])


class _Stateful(Operator, abstract=True):
    """What operators on shared state have in common."""

    host = True
    effects = {"state"}
    gradient: RuleFunction | None = forbidden("it works on shared state")


class CreateCounter(_Stateful):
    """A counter."""

    outputs = [Out("counter", "opaque")]
    arguments = [Int("init_count", 0)]
    example = Example({}, {"counter": None}, {"init_count": 2})

    def kernel(xp: Any, *, init_count: int) -> Any:
        if init_count < 0:
            raise ValueError(f"init_count is {init_count}, expected a count")
        return Counter(init_count)


class ResetCounter(_Stateful):
    """Sets a counter and gives its value before."""

    inputs = [In("counter")]
    outputs = [Out("previous_value", "a scalar int64", optional=True)]
    arguments = [Int("init_count", 0)]
    shape = _COUNT
    example = Example(
        {},
        {},
        {"init_count": 5},
        before=(Step("CreateCounter", outputs=("counter",), arguments={"init_count": 2}),),
        inputs=("counter",))

    def kernel(xp: Any, counter: Counter, *, init_count: int) -> Any:
        if init_count < 0:
            raise ValueError(f"init_count is {init_count}, expected a count")
        return _int64(xp, counter.exchange(init_count))


class CountDown(_Stateful):
    """Takes one off a counter; was it zero or less before?"""

    inputs = [In("counter")]
    outputs = [Out("done", "a scalar bool")]
    shape = _FLAG
    example = Example(
        {},
        {"done": False},
        before=(Step("CreateCounter", outputs=("counter",), arguments={"init_count": 2}),),
        inputs=("counter",))

    def kernel(xp: Any, counter: Counter) -> Any:
        return _bool(xp, counter.add(-1) <= 0)


class CheckCounterDone(_Stateful):
    """Is the counter at zero or below?"""

    inputs = [In("counter")]
    outputs = [Out("done", "a scalar bool")]
    shape = _FLAG
    gradient = None
    example = Example(
        {},
        {"done": False},
        before=(Step("CreateCounter", outputs=("counter",), arguments={"init_count": 2}),),
        inputs=("counter",))

    def kernel(xp: Any, counter: Counter) -> Any:
        return _bool(xp, counter.value <= 0)


class CountUp(_Stateful):
    """Adds one to a counter and gives its value before."""

    inputs = [In("counter")]
    outputs = [Out("previous_count", "a scalar int64")]
    shape = _COUNT
    example = Example(
        {},
        {"previous_count": Tensor(2, "int64")},
        before=(Step("CreateCounter", outputs=("counter",), arguments={"init_count": 2}),),
        inputs=("counter",))

    def kernel(xp: Any, counter: Counter) -> Any:
        return _int64(xp, counter.add(1))


class RetrieveCount(_Stateful):
    """The value of a counter."""

    inputs = [In("counter")]
    outputs = [Out("count", "a scalar int64")]
    shape = _COUNT
    example = Example(
        {},
        {"count": Tensor(2, "int64")},
        before=(Step("CreateCounter", outputs=("counter",), arguments={"init_count": 2}),),
        inputs=("counter",))

    def kernel(xp: Any, counter: Counter) -> Any:
        return _int64(xp, counter.value)


class CreateMutex(_Stateful):
    """A lock."""

    outputs = [Out("mutex_ptr", "opaque")]
    example = Example({}, {"mutex_ptr": None})

    def kernel(xp: Any) -> Any:
        return Mutex()


def _fetch_add(mutex: Mutex, value: Any, increment: Any, dtype: str, op: Any) -> None:
    for what, x in (("mut_value", value), ("increment", increment)):
        if x.dtype != dtype or x.size != 1:
            raise ValueError(f"{what} is {x.dtype} of shape {x.shape}, expected one {dtype}")
    with mutex:  # blobs are read and bound here: the executor does so before and after, when others may have added
        before = op.workspace.fetch_blob(op.inputs[1]).reshape(())
        op.workspace.feed_blob(op.outputs[0], before + increment.reshape(()))
        op.workspace.feed_blob(op.outputs[1], before)


class AtomicFetchAdd(_Stateful):
    """Adds to a number under a lock, and gives its value before."""

    inputs = [In("mutex_ptr"), In("mut_value", "one int32"), In("increment", "one int32")]
    outputs = [Out("mut_value", "a scalar: the sum"), Out("fetched_value", "a scalar: the value before")]
    effects = {"state", "binds"}
    inplace = {(1, 0)}
    example = Example(
        {"mut_value": [1], "increment": [2]},
        {"mut_value": 3, "fetched_value": 1},
        before=(Step("CreateMutex", outputs=("mutex_ptr",)),),
        inputs=("mutex_ptr", "mut_value", "increment"))

    def kernel(xp: Any, mutex: Mutex, value: Any, increment: Any, *, op: Any) -> None:
        _fetch_add(mutex, value, increment, "int32", op)


class AtomicFetchAdd64(_Stateful):
    """Adds to a number under a lock, and gives its value before."""

    inputs = [In("mutex_ptr"), In("mut_value", "one int64"), In("increment", "one int64")]
    outputs = [Out("mut_value", "a scalar: the sum"), Out("fetched_value", "a scalar: the value before")]
    effects = {"state", "binds"}
    inplace = {(1, 0)}
    gradient = None
    example = Example(
        {"mut_value": Tensor([1], "int64"), "increment": Tensor([2], "int64")},
        {"mut_value": Tensor(3, "int64"), "fetched_value": Tensor(1, "int64")},
        before=(Step("CreateMutex", outputs=("mutex_ptr",)),),
        inputs=("mutex_ptr", "mut_value", "increment"))

    def kernel(xp: Any, mutex: Mutex, value: Any, increment: Any, *, op: Any) -> None:
        _fetch_add(mutex, value, increment, "int64", op)


class CreateAtomicBool(_Stateful):
    """A flag, not set."""

    outputs = [Out("atomic_bool", "opaque")]
    example = Example({}, {"atomic_bool": None})

    def kernel(xp: Any) -> Any:
        return Flag()


class ConditionalSetAtomicBool(_Stateful):
    """Sets a flag if the condition is true."""

    inputs = [In("atomic_bool"), In("condition", "one bool")]
    example = Example(
        {"condition": [True]},
        {},
        before=(Step("CreateAtomicBool", outputs=("atomic_bool",)),),
        inputs=("atomic_bool", "condition"))

    def kernel(xp: Any, flag: Flag, condition: Any) -> Any:
        if _true(xp, condition, "condition"):
            flag.value = True
        return ()


class CheckAtomicBool(_Stateful):
    """Is the flag set?"""

    inputs = [In("atomic_bool")]
    outputs = [Out("value", "(1,), bool")]
    shape = _ONE_FLAG
    example = Example(
        {},
        {"value": [False]},
        before=(Step("CreateAtomicBool", outputs=("atomic_bool",)),),
        inputs=("atomic_bool",))

    def kernel(xp: Any, flag: Flag) -> Any:
        return xp.reshape(_bool(xp, flag.value), (1,))


_STATISTIC = [
    Str("stat_name", "", "the name of the statistic; that of the input blob unless given"),
    Str("name", "", "not read"), Int("magnitude_expand", 1, "counts are kept in parts of this size"),
    Bool("bound", False, "values outside of what can be counted become the largest or smallest"),
    Float("default_value", 0.0, "for an empty input"),
]


def _statistic(xp: Any, value: Any, stat_name: str, magnitude_expand: int, bound: bool, default_value: float,
               op: Any) -> tuple[str, int]:
    """The name of a statistic, and the number to count."""
    if value.size > 1:
        raise ValueError(f"value has shape {value.shape}, expected one element or none")
    number = float(value.reshape(-1)[0]) if value.size else default_value
    scaled, most = number * magnitude_expand, 2 ** 63 - 1
    if bound and not abs(scaled) < most:
        scaled = 0 if scaled != scaled else most if scaled > 0 else -most
    return f"{stat_name or op.inputs[0]}/stat_value", int(scaled)


class AveragePut(_Stateful):
    """Adds a value to an average of the statistics."""

    inputs = [In("value", "one number")]
    arguments = _STATISTIC
    gradient = None
    example = Example({"value": [1.5]}, {}, {"stat_name": "s"})

    def kernel(xp: Any, value: Any, *, stat_name: str, magnitude_expand: int, bound: bool, default_value: float,
               op: Any) -> Any:
        name, number = _statistic(xp, value, stat_name, magnitude_expand, bound, default_value, op)
        global_registry().add({f"{name}/sum": number, f"{name}/count": 1})
        return ()


class IncrementPut(_Stateful):
    """Adds a value to a sum of the statistics."""

    inputs = [In("value", "one number")]
    arguments = _STATISTIC
    gradient = None
    example = Example({"value": [1.0]}, {}, {"stat_name": "s"})

    def kernel(xp: Any, value: Any, *, stat_name: str, magnitude_expand: int, bound: bool, default_value: float,
               op: Any) -> Any:
        name, number = _statistic(xp, value, stat_name, magnitude_expand, bound, default_value, op)
        global_registry().add({name: number})
        return ()


class StdDevPut(_Stateful):
    """Adds a value to a mean and standard deviation of the statistics."""

    inputs = [In("value", "one number")]
    arguments = _STATISTIC
    gradient = None
    example = Example({"value": [1.5]}, {}, {"stat_name": "s"})

    def kernel(xp: Any, value: Any, *, stat_name: str, magnitude_expand: int, bound: bool, default_value: float,
               op: Any) -> Any:
        name, number = _statistic(xp, value, stat_name, magnitude_expand, bound, default_value, op)
        registry = global_registry()
        first = registry.first(f"{name}/sumoffset", number)  # deviations from the first value lose less to rounding
        registry.add({f"{name}/sum": number, f"{name}/count": 1, f"{name}/sumsqoffset": (number - first) ** 2,
                      f"{name}/sumoffset": number - first})
        return ()


class StatRegistryCreate(_Stateful):
    """A place of its own for statistics."""

    outputs = [Out("handle", "opaque")]
    gradient = None
    example = Example({}, {"handle": None})

    def kernel(xp: Any) -> Any:
        return Registry()


class StatRegistryExport(_Stateful):
    """All statistics: names, values, and when they were read (nanoseconds since 1970)."""

    inputs = [In("handle", "that of the process unless given", optional=True)]
    outputs = [Out("keys", "1-D strings"), Out("values", "1-D int64"), Out("timestamps", "1-D int64")]
    arguments = [Bool("reset", True, "set them to zero")]
    gradient = None
    example = Example(
        {},
        {"keys": TensorType("string", (0,)), "values": TensorType("int64", (0,)),
         "timestamps": TensorType("int64", (0,))},
        before=(Step("StatRegistryCreate", outputs=("handle",)),),
        inputs=("handle",))

    def kernel(xp: Any, handle: Registry | None = None, *, reset: bool) -> Any:
        found = (handle or global_registry()).export(reset)
        now = [time.time_ns()] * len(found)
        return (string_array([name.encode() for name in found], (len(found),)),
                xp.asarray(list(found.values()), dtype=xp.int64), xp.asarray(now, dtype=xp.int64))


class StatRegistryUpdate(_Stateful):
    """Adds values to statistics by name."""

    inputs = [In("keys", "1-D strings"), In("values", "1-D int64"), In("handle", optional=True)]
    gradient = None
    example = Example(
        {"keys": ["a"], "values": Tensor([3], "int64")},
        {},
        before=(Step("StatRegistryCreate", outputs=("handle",)),),
        inputs=("keys", "values", "handle"))

    def kernel(xp: Any, keys: Any, values: Any, handle: Registry | None = None) -> Any:
        if keys.shape != values.shape:
            raise ValueError(f"keys have shape {keys.shape} and values {values.shape}: expected as many")
        for key, value in zip(keys.reshape(-1), values.reshape(-1).tolist(), strict=True):
            (handle or global_registry()).add({bytes(key).decode(): value})
        return ()


class TimerBegin(_Stateful):
    """A timer, running."""

    outputs = [Out("timer", "opaque")]
    arguments = [Str("counter_name", "", "the name of its statistic; that of the output unless given")]
    gradient = None
    example = Example({}, {"timer": None}, {"counter_name": "t"})

    def kernel(xp: Any, *, counter_name: str, op: Any) -> Any:
        return Timer(counter_name or op.outputs[0])


class TimerEnd(_Stateful):
    """Stops a timer and adds its nanoseconds to the statistics."""

    inputs = [In("timer")]
    gradient = None
    example = Example(
        {},
        {},
        before=(Step("TimerBegin", outputs=("timer",), arguments={"counter_name": "t"}),),
        inputs=("timer",))

    def kernel(xp: Any, timer: Timer) -> Any:
        timer.end(global_registry())
        return ()


class TimerGet(_Stateful):
    """How long a timer has been running."""

    inputs = [In("timer")]
    outputs = [Out("nanos", "a scalar int64")]
    shape = _COUNT
    gradient = None
    example = Example(
        {},
        {"nanos": TensorType("int64", ())},
        before=(Step("TimerBegin", outputs=("timer",), arguments={"counter_name": "t"}),),
        inputs=("timer",))

    def kernel(xp: Any, timer: Timer) -> Any:
        return _int64(xp, timer.nanoseconds())


class TimerGetAndEnd(_Stateful):
    """TimerGet and TimerEnd at once."""

    inputs = [In("timer")]
    outputs = [Out("nanos", "(1,), int64")]
    shape = _ONE_COUNT
    gradient = None
    example = Example(
        {},
        {"nanos": TensorType("int64", (1,))},
        before=(Step("TimerBegin", outputs=("timer",), arguments={"counter_name": "t"}),),
        inputs=("timer",))

    def kernel(xp: Any, timer: Timer) -> Any:
        return xp.reshape(_int64(xp, timer.end(global_registry())), (1,))


class WallClockTime(_Stateful):
    """The time, in nanoseconds since 1970."""

    outputs = [Out("time", "a scalar int64")]
    shape = _COUNT
    example = Example({}, {"time": TensorType("int64", ())})

    def kernel(xp: Any) -> Any:
        return _int64(xp, time.time_ns())
