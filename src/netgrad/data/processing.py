"""Processors: functions, nets or objects between a reader and a writer, which turn one record into another.

A processor is called with the record that was read. It may write operators by `netgrad.control.net_builder.ops`, and
returns a record, an `Output`, None, a pair (record, stop blob), or nets with these two.
"""

from __future__ import annotations

from typing import Any

from netgrad.control.net_builder import NetBuilder
from netgrad.control.task import TaskGroup
from netgrad.data.readers import Reader
from netgrad.graph.blob import BlobReference
from netgrad.graph.net import Net
from netgrad.graph.net_cloning import clone_and_bind_net
from netgrad.graph.records import Field, as_record


class Output:
    """What a processor returns.

    Args:
        nets: a net or a list of them that run for each record; None: what the processor wrote by ``ops``.
        record: the new record, or what `netgrad.graph.records.as_record` takes; None: nothing is written.
        should_stop: a boolean blob that ends the reading.
    """

    def __init__(self, nets: Any = None, record: Any = None, should_stop: Any = None) -> None:
        written = NetBuilder.current().get()
        if nets is not None and written:
            raise AssertionError("the processor returned nets and wrote operators by `ops` too; do one of the two")
        nets = written if nets is None else nets
        self.nets: list[Any] = [nets] if isinstance(nets, Net) else list(nets)
        self.record = None if record is None else as_record(record)
        self.should_stop = should_stop


def normalize_processor_output(output: Any) -> Output:
    """What a processor returned, in whatever form, as an `Output`."""
    if isinstance(output, Output):
        return output
    if isinstance(output, Field):
        return Output(record=output)
    if isinstance(output, tuple):
        if len(output) == 2 and isinstance(output[0], Field) and isinstance(output[1], BlobReference):
            return Output(None, *output)
        return Output(*output)
    return Output(output)


def make_processor(processor: Any, reader: Reader | None = None) -> Any:
    """A processor as a callable: None passes records on, a net becomes a `NetProcessor`.

    One that has ``schema_func`` is told by it, from the reader, what its records are like.
    """
    if processor is None:
        return lambda record: record
    if isinstance(processor, Net):
        return NetProcessor(processor)
    if reader is not None and hasattr(processor, "schema_func"):
        processor.schema = lambda: processor.schema_func(reader)
    return processor


def processor_name(processor: Any) -> str:
    """What tasks are called after a processor, reader or writer: its ``name``, else its type's ("function" for those).

    Names of tasks begin those of their blobs, which Caffe2's checkpoints contain.
    """
    return processor.name if hasattr(processor, "name") else type(processor).__name__  # type: ignore[no-any-return]


class ProcessingReader(Reader):
    """Another reader with a processor behind it."""

    def __init__(self, reader: Reader, processor: Any) -> None:
        super().__init__()
        self.reader = reader
        self.processor = make_processor(processor, reader)

    def schema(self) -> Any:
        """What the processor says its records are like, or what they were like when a net was last written."""
        if hasattr(self.processor, "schema"):
            return self.processor.schema()
        return super().schema()

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> tuple[list[Net], Any, Any]:
        nets, status, record = self.reader.read_record_ex(local_init_net, local_finish_net)
        # the builder's stop blob is one of its own: where to stop is known to this reader only in the end
        with NetBuilder() as builder:
            result = normalize_processor_output(self.processor(record))
        nets = [*nets, *result.nets]
        stops = [blob for blob in (result.should_stop, builder._stop_blob) if blob]
        if stops:
            stop_net = Net("stop_net")
            for blob in stops:
                stop_net.Or([status, blob], [status])
            nets.append(stop_net)
        if hasattr(self.processor, "setup"):
            local_init_net.add_attribute(TaskGroup.LOCAL_SETUP, self.processor)
        self._set_schema(result.record)
        return nets, status, result.record.field_blobs() if result.record else None


class NetProcessor:
    """A processor that copies a net for each thread; the net says by its input and output records what it turns into
    what.

    Args:
        stop_signal: a boolean blob of the net that ends the reading.
        thread_init_nets: nets that run once for each copy, copied too.
    """

    def __init__(self, net: Net, stop_signal: BlobReference | None = None, thread_init_nets: list[Net] | None = None,
                 name: str | None = None) -> None:
        if not isinstance(net, Net):
            raise AssertionError(f"expected a Net, not {net!r}")
        if stop_signal is not None and not isinstance(stop_signal, BlobReference):
            raise AssertionError(f"the stop signal is a BlobReference, not {stop_signal!r}")
        self.name = name or str(net)
        self.thread_init_nets = thread_init_nets or []
        self.net = net
        self._stop_signal = stop_signal
        self._blob_maps: list[dict[str, str]] = []
        self._frozen = False
        self._cloned_init_nets: list[Net] = []

    def schema(self) -> Any:
        return self.net.output_record()

    def setup(self, init_net: Any) -> list[Net]:
        """The copies of the init nets, to run before; no copy can be made any more."""
        self._frozen = True
        nets, self._cloned_init_nets = self._cloned_init_nets, []
        return nets

    def __call__(self, record: Any) -> Output:
        if self._frozen:
            raise AssertionError(f"processor {self.name!r} runs already and cannot be used in another task; make a new "
                                 "one")
        prefix = NetBuilder.current().name + "/"
        renamed: dict[str, str] = {}
        for net in self.thread_init_nets:
            self._cloned_init_nets.append(clone_and_bind_net(net, str(net) + prefix, prefix, renamed)[0])
        copy, renamed = clone_and_bind_net(self.net, str(self.net) + prefix, prefix, renamed, record)
        stop = self._stop_signal
        if stop is not None and str(stop) in renamed:
            stop = BlobReference(renamed[str(stop)], net=copy)
        self._blob_maps.append(renamed)
        return Output([copy], copy.output_record(), stop)

    def blob_maps(self) -> list[dict[str, str]]:
        """From the net's names to those of each copy; no copy can be made any more."""
        self._frozen = True
        return self._blob_maps
