"""Readers that count, stop early, wait, or read several sources at once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.data.readers import Reader, ReaderBuilder, reader_of
from netgrad.graph.net import Net
from netgrad.graph.records import Struct
from netgrad.proto.caffe2_pb2 import TensorProto


def _false(net: Any, *outputs: Any) -> Any:
    return net.ConstantFill([], list(outputs) or 1, shape=[], value=False, dtype=TensorProto.BOOL)


class CounterReader(Reader):
    """Reads 0, 1, 2, ... (the field ``iter``) without end; threads share the count."""

    def __init__(self) -> None:
        super().__init__(schema=Struct(("iter", np.int64)))
        self.counter: Any = None
        self.should_stop: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        if self.counter is None:
            self.counter = init_net.CreateCounter([], init_count=0)
            self.should_stop = init_net.ConstantFill([], shape=[], dtype=TensorProto.BOOL, value=False)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        net = Net("limited_reader_counter")
        should_stop, fields = self.read(net)
        return [net], should_stop, fields

    def read(self, read_net: Any) -> tuple[Any, Any]:
        if self.counter is None:
            raise AssertionError("a CounterReader has to be set up (setup_ex) before it is read")
        return self.should_stop, [read_net.CountUp([self.counter], 1)]


class ReaderWithLimitBase(Reader):
    """Another reader, until a condition ends it.

    A subclass says in `setup_limiter` and `check_limiter_condition` what the condition is, which is looked at before
    each batch.

    Args:
        reader: where the batches come from.
    """

    def __init__(self, reader: Reader) -> None:
        super().__init__(schema=reader._schema)
        self.reader = reader
        self.net = Net("reader_with_limit")
        self._data_finished = self.net.AddExternalInput(self.net.NextName("data_finished"))
        self.should_stop: Any = None

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        _false(init_net, self._data_finished)
        self.reader.setup_ex(init_net, finish_net)
        self.setup_limiter(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        condition_net = Net("limited_reader_condition")
        should_stop = self.check_limiter_condition(condition_net)
        nets, local_data_finished, fields = self.reader.read_ex(local_init_net, local_finish_net)
        self._set_schema(self.reader._schema)
        # a step looks at its stop blob after every net: the condition has been obeyed by the time it is written again
        done_net = Net("limited_reader_post")
        done_net.Copy(local_data_finished, should_stop)
        done_net.Or([self._data_finished, local_data_finished], [self._data_finished])
        return [condition_net, *nets, done_net], should_stop, fields

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        """Writes what the condition needs once before, and once after, all that reads."""
        raise NotImplementedError(f"say what the limit needs in {type(self).__name__}.setup_limiter")

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        """Writes the condition into a net; returns the boolean blob that it makes, true for the end."""
        raise NotImplementedError(f"say when to stop in {type(self).__name__}.check_limiter_condition")

    def data_finished(self) -> Any:
        """A boolean blob: did the other reader come to its end (and not the limit)?"""
        return self._data_finished


class ReaderWithLimit(ReaderWithLimitBase):
    """The first batches of another reader, all threads together.

    Args:
        num_iter: how many at most (none at all for 0 and less); None: all.
    """

    def __init__(self, reader: Reader, num_iter: int | None = 1) -> None:
        super().__init__(reader)
        self.num_iter = num_iter
        self.counter = None if num_iter is None else self.net.AddExternalInput(self.net.NextName("counter"))

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        if self.num_iter is not None:
            global_init_net.CreateCounter([], [self.counter], init_count=int(self.num_iter))

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        if self.counter is None:
            return _false(stop_condition_net)
        return stop_condition_net.CountDown([self.counter], 1)


def CountUntil(num_iter: int | None) -> ReaderWithLimit:
    """A reader of 0, 1, ..., ``num_iter`` - 1."""
    return ReaderWithLimit(CounterReader(), num_iter)


class ReaderWithTimeLimit(ReaderWithLimitBase):
    """Another reader, for a time; a batch that was begun is read to its end.

    Args:
        duration: seconds from the task's start; for ever if None, 0 or less.
    """

    def __init__(self, reader: Reader, duration: float | None = 0) -> None:
        super().__init__(reader)
        self.timer: Any = None
        self.duration = duration
        self.duration_ns_blob: Any = None

    @property
    def _limited(self) -> bool:
        return self.duration is not None and self.duration > 0

    def setup_limiter(self, global_init_net: Any, global_finish_net: Any) -> None:
        if not self._limited:
            return
        assert self.duration is not None
        self.timer = global_init_net.TimerBegin([], counter_name="epoch_timer")
        start = global_init_net.TimerGet(self.timer)
        self.duration_ns_blob = global_init_net.ConstantFill([start], value=int(self.duration * 10**9))
        global_finish_net.TimerEnd([self.timer], [])

    def check_limiter_condition(self, stop_condition_net: Any) -> Any:
        if not self._limited:
            return _false(stop_condition_net)
        elapsed = stop_condition_net.TimerGet(self.timer)
        return stop_condition_net.GE([elapsed, self.duration_ns_blob])


class ReaderWithDelay(Reader):
    """Another reader, each batch after ``delay`` seconds; for tests."""

    def __init__(self, reader: Reader, delay: float) -> None:
        super().__init__(schema=reader._schema)
        self.reader = reader
        self.delay = delay

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        net = Net("reader_body")

        def sleep_op(*_: Any) -> None:
            time.sleep(self.delay)

        net.Python(sleep_op)([], [])
        should_stop, fields = self.reader.read(net)
        return [net], should_stop, fields


class CompositeReader(Reader):
    """Several readers side by side: a record of their records. It ends when one of them does.

    Args:
        names: the fields that the readers' records become.
        readers: one for each; they must know their schemas.
    """

    def __init__(self, names: Sequence[str], readers: Sequence[Reader]) -> None:
        if len(names) != len(readers) or not names:
            raise AssertionError(f"{len(readers)} readers were given {len(names)} names; expected one for each, and at "
                                 "least one")
        super().__init__(schema=Struct(*((name, reader.schema()) for name, reader in zip(names, readers, strict=True))))
        self._names = list(names)
        self._readers = list(readers)

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        for reader in self._readers:
            reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        parts = [reader.read_record_ex(local_init_net, local_finish_net) for reader in self._readers]
        should_stop = parts[-1][1]
        nets: list[Net] = []
        fields: list[Any] = []
        for name, (own_nets, own_stop, record) in zip(self._names, parts, strict=True):
            nets += own_nets
            fields += record.field_blobs()
            if own_stop != should_stop:
                stop_net = Net(f"{name}_stop")
                stop_net.Or([should_stop, own_stop], should_stop)
                nets.append(stop_net)
        return nets, should_stop, fields

    def reset(self, net: Any) -> None:
        for reader in self._readers:
            reader.reset(net)


class CompositeReaderBuilder(ReaderBuilder):
    """A `CompositeReader` of the readers of several builders.

    Args:
        names: the fields that the readers' records become.
        reader_builders: one for each.
    """

    def __init__(self, names: Sequence[str], reader_builders: Sequence[ReaderBuilder]) -> None:
        if len(names) != len(reader_builders) or not names:
            raise AssertionError(f"{len(reader_builders)} builders were given {len(names)} names; expected one for "
                                 "each, and at least one")
        self._names = list(names)
        self._reader_builders = list(reader_builders)
        self._schema = Struct(*((name, builder.schema())
                                for name, builder in zip(names, reader_builders, strict=True)))

    def schema(self) -> Any:
        return self._schema

    def setup(self, **kwargs: Any) -> dict[str, Any]:
        """Sets all builders up; ``limiter``, which counts batches, goes to the last one only, which is read last.

        Raises:
            AssertionError: two builders tell the end of their data by one name or blob.
        """
        limiter = kwargs.pop("limiter", None)
        finished: dict[str, Any] = {}
        for k, builder in enumerate(self._reader_builders):
            if limiter is not None and k == len(self._reader_builders) - 1:
                kwargs["limiter"] = limiter
            own = builder.setup(**kwargs) or {}
            if names := finished.keys() & own.keys():
                raise AssertionError(f"two builders tell the end of their data under the names {sorted(names)}")
            if blobs := {str(blob) for blob in finished.values()} & {str(blob) for blob in own.values()}:
                raise AssertionError(f"two builders tell the end of their data by the blobs {sorted(blobs)}")
            finished.update(own)
        return finished

    def new_reader(self, **kwargs: Any) -> CompositeReader:
        reader = CompositeReader(self._names, [reader_of(builder.new_reader(**kwargs))
                                               for builder in self._reader_builders])
        if reader.schema() != self._schema:
            raise AssertionError(f"the readers' records are {reader.schema()!r}, where their builders said "
                                 f"{self._schema!r}")
        return reader
