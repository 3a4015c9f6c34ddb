"""Running recurrent networks: a step net once per time step, its gradient from the last step to the first.

A state is kept as a list of rows, one per time step after those of its first value. A *link* binds a name of the step
net to a window of rows: before the step if the net reads it, after the step if the net makes it. No row is ever written
twice while the network runs forward; backward, what several links bring to a row adds up.

What the steps leave behind (a `Steps` in the last output) is all that the gradient reads: the values of the forward
run, whatever has become of the names since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from netgrad.graph.control import effect_of_all
from netgrad.proto import caffe2_pb2
from netgrad.recurrent import fused_lstm
from netgrad.runtime.blobs import describe
from netgrad.runtime.errors import BadArgument, BadIndex, BadShape, MissingBlob, WrongKind
from netgrad.runtime.executor import BoundNet
from netgrad.runtime.workspace import Workspace

if TYPE_CHECKING:
    from netgrad.runtime.binding import Call

Rows = list[Any]

#: elements of a step's input up to which one thread runs its net: a product of (32, 256) and (256, 1024)
_SMALL = 1 << 15
#: the same for a fused run, where nothing stands between the products: (32, 64) and (64, 256)
_SMALL_FUSED = 1 << 13


class Link(NamedTuple):
    """A name of the step net, and the rows of a blob outside that it stands for at time 0."""

    internal: str
    external: str
    offset: int
    window: int


class Steps:
    """What a forward run leaves for the gradient.

    Attributes:
        around: blobs outside that the step net reads.
        local: time -> the blobs that the step made or was given; all steps, or the last alone without a gradient.
        first: state -> the number of rows of its first value.
        rows: state -> one of its rows.
        activations: of a recognised LSTM.
    """

    def __init__(self, around: dict[str, Any], first: dict[str, int], rows: dict[str, Any]) -> None:
        self.around = around
        self.local: Mapping[int, dict[str, Any]] = {}
        self.first = first
        self.rows = rows
        self.activations: fused_lstm.Activations | None = None


class _Definition:
    """The arguments of a recurrent operator, checked."""

    def __init__(self, call: Call, direction: str) -> None:
        forward = direction == "link"
        self.names = list(call.outputs[:-1]) if forward else _texts(call, "forward_outputs")
        self.states = _texts(call, "recurrent_states")
        self.initial = _numbers(call, "initial_recurrent_state_ids")
        if len(self.states) != len(self.initial):
            raise BadArgument(f"recurrent_states names {len(self.states)} states and initial_recurrent_state_ids "
                              f"{len(self.initial)} first values; they go together one to one")
        self.timestep = _text(call.argument("timestep", "timestep"))
        self.aliases = list(zip(_texts(call, "alias_src"), _texts(call, "alias_dst"), _numbers(call, "alias_offset")))
        for state, name, _ in self.aliases:
            if state not in self.states:
                raise BadArgument(f"the output {name!r} is to be the state {state!r}, which is not among "
                                  f"recurrent_states: {', '.join(self.states)}")
        self.links = _links(call, direction)
        if forward:  # a blob that a step hands on as it was given is linked twice: first where it comes from
            self.links.sort(key=lambda link: (link.external in self.states, link.offset))

    def output(self, k: int) -> tuple[str, str, int]:
        """The state that output k shows, the output's name, and the row from which it shows it.

        An output is what ``alias_dst`` says of its name; one that has a state's name is that state, first rows
        included. In a net whose blobs were renamed the positions count.
        """
        name = self.names[k] if k < len(self.names) else ""
        for alias in self.aliases:
            if alias[1] == name:
                return alias
        if name in self.states:
            return name, name, 0
        if k < len(self.aliases):
            return self.aliases[k]
        raise BadArgument(f"its output {k}{f', {name!r},' * bool(name)} is neither one of alias_dst "
                          f"({', '.join(alias[1] for alias in self.aliases)}) nor a state "
                          f"({', '.join(self.states)})")


def _text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _texts(call: Call, name: str) -> list[str]:
    return [_text(value) for value in call.argument(name) or ()]


def _numbers(call: Call, name: str) -> list[int]:
    return [int(value) for value in call.argument(name) or ()]


def net_in(call: Call, name: str) -> Any:
    """The net in an argument; None where there is none."""
    given = next((argument for argument in call.definition.arg if argument.name == name), None)
    return None if given is None else call.declaration.argument_table[name].convert(given)


def _links(call: Call, prefix: str) -> list[Link]:
    internal, external = _texts(call, prefix + "_internal"), _texts(call, prefix + "_external")
    offsets = _numbers(call, prefix + "_offset")
    windows = _numbers(call, prefix + "_window") or [1] * len(internal)
    if not len(internal) == len(external) == len(offsets) == len(windows):
        raise BadArgument(f"{prefix}_internal, {prefix}_external, {prefix}_offset and {prefix}_window have "
                          f"{len(internal)}, {len(external)}, {len(offsets)} and {len(windows)} entries; they go "
                          "together one to one")
    return [Link(*entry) for entry in zip(internal, external, offsets, windows)]


class StepNet:
    """A step net, bound in a workspace of its own.

    Attributes:
        incoming, outgoing: links that are read before a step, and written after it.
        outside: names that it reads and that no link and no operator before makes: parameters.
        updated: those of them that it writes as well (running statistics).
    """

    def __init__(self, net: Any, links: Iterable[Link], timestep: str, backend: str,
                 known: Collection[str] | None) -> None:
        definition = caffe2_pb2.NetDef()
        definition.CopyFrom(net)
        effect = effect_of_all(definition.op)
        self.incoming: list[Link] = []
        self.outgoing: list[Link] = []
        for link in links:
            made_here = link.internal in effect.writes and link.internal not in effect.reads
            seen = any(link.internal == other.internal for other in self.incoming)
            (self.outgoing if made_here or seen else self.incoming).append(link)
        self._join_windows(definition)
        self.timestep = timestep
        linked = {link.internal for link in self.incoming} | {timestep}
        self.outside = [name for name in effect_of_all(definition.op).reads if name and name not in linked]
        self.updated = [name for name in self.outside if name in effect.writes]
        self.workspace = Workspace(backend=backend)
        self.values = self.workspace.values
        self.net = BoundNet(definition, self.workspace, known=None if known is None else {*known, *linked})

    def _join_windows(self, net: Any) -> None:
        """Lets a window that covers a row which the step itself makes see it: the row is joined to those before it."""
        for link in list(self.incoming):
            made = {other.offset: other.internal for other in self.outgoing
                    if other.external == link.external and other.window == 1}
            rows = range(link.offset, link.offset + link.window)
            if made.keys().isdisjoint(rows):
                continue
            self.incoming.remove(link)
            pieces = []
            for row in rows:
                pieces.append(made.get(row, f"{link.internal}/{row}"))
                if row not in made:
                    self.incoming.append(Link(pieces[-1], link.external, row, 1))
            position = next(k for k, op in enumerate(net.op) if link.internal in op.input)
            join = caffe2_pb2.OperatorDef(type="Concat", input=pieces, output=[link.internal, link.internal + "/rows"])
            join.arg.add(name="axis", i=0)
            later = list(net.op)[position:]
            del net.op[position:]
            net.op.extend([join, *later])

    def run(self, t: Any, given: Mapping[str, Any]) -> dict[str, Any]:
        """One step: runs the net on the given blobs; returns all that it then has."""
        values = self.values
        values.clear()
        values.update(given)
        values[self.timestep] = t
        self.net.run()
        return dict(values)


class _Runner:
    """What both directions share."""

    def __init__(self, call: Call, direction: str, net_argument: str, known: Collection[str] | None) -> None:
        self.call = call
        self.definition = _Definition(call, direction)
        backend = call.workspace.backend
        self.xp = backend.xp
        net = net_in(call, net_argument)
        if net is None and direction == "backward_link":
            net = caffe2_pb2.NetDef()  # nothing is to be computed where gradients just pass on
        if net is None:
            raise BadArgument(f"its argument {net_argument}, the net of a step, is missing")
        names = None if known is None else {*known, *call.inputs, *call.workspace.values}
        self.step = StepNet(net, self.definition.links, self.definition.timestep, backend.name, names)
        self._times: list[Any] = []
        #: how many operators of step nets the last run stands for; observers count them
        self.operators_run = 0
        forward = net_in(call, "step_net")
        self.lstm: fused_lstm.LSTM | None = None
        if backend.name == "torch" and forward is not None and not call.argument("recompute_blobs_on_backward"):
            sequence = len(_numbers(call, "outputs_given") or _numbers(call, "outputs_with_grads")) \
                if direction == "backward_link" else 0
            self.lstm = fused_lstm.recognise(forward, _links(call, "link"), self.definition.states,
                                             call.inputs[sequence], self.definition.timestep)

    def time(self, t: int) -> Any:
        while len(self._times) <= t:
            self._times.append(self.xp.asarray([len(self._times)], dtype=self.xp.int32))
        return self._times[t]

    @contextmanager
    def threads_for(self, sequence: Any) -> Iterator[None]:
        """One thread for steps so small that waking others costs more than they do."""
        rows, most = _size(sequence.shape[1:]), _SMALL if self.lstm is None else _SMALL_FUSED
        if self.call.workspace.backend.name != "torch" or rows > most or sequence.device.type != "cpu":
            yield
            return
        from netgrad.runtime.backends.torch.threads import one_thread

        with one_thread():
            yield

    def inputs(self, count: int) -> list[Any]:
        """The values of the first inputs, all of them tensors."""
        backend = self.call.workspace.backend
        found = []
        for name in self.call.inputs[:count]:
            value = self.outside(name)
            if not isinstance(value, backend.array_type):
                raise WrongKind(f"{describe(name, value)}, where a tensor is expected")
            found.append(value)
        return found

    def outside(self, name: str) -> Any:
        values = self.call.workspace.values
        if name not in values or values[name] is None:
            raise MissingBlob(f"it reads {name!r}, and there is no such blob; feed it, or run what makes it before")
        return values[name]


def _window(rows: Sequence[Any], link: Link, t: int) -> slice:
    start = t + link.offset
    if start < 0 or start + link.window > len(rows):
        raise BadIndex(f"{link.internal!r} is linked to rows {start} to {start + link.window - 1} of "
                       f"{link.external!r} at time {t}, which has {len(rows)}; correct the offset or the window")
    return slice(start, start + link.window)


class Forward(_Runner):
    """A RecurrentNetwork, bound."""

    def __init__(self, call: Call, known: Collection[str] | None = None) -> None:
        super().__init__(call, "link", "step_net", known)
        self.recomputed = set(_texts(call, "recompute_blobs_on_backward"))
        self.keeps = net_in(call, "backward_step_net") is not None or bool(call.argument("backward_link_internal"))

    def run(self) -> tuple[Any, ...]:
        """The outputs of a RecurrentNetwork."""
        return self.of(self.inputs(self.call.num_inputs))

    def of(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs that values of its inputs give."""
        sequence = inputs[0]
        if sequence.ndim < 2:
            raise BadShape(f"the sequence {self.call.inputs[0]!r} has shape {tuple(sequence.shape)}, not (T, N, ...)")
        with self.threads_for(sequence):
            return self._run(inputs)

    def _run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        call, step, xp = self.call, self.step, self.xp
        sequence = inputs[0]
        length = sequence.shape[0]
        self.operators_run = length * len(step.net.definition.op)
        states: dict[str, Rows] = {}
        for name, k in zip(self.definition.states, self.definition.initial):
            states[name] = _first_rows(xp, call.inputs[k], inputs[k], sequence.shape[1])
        firsts = {name: inputs[k] for name, k in zip(self.definition.states, self.definition.initial)}
        given = dict(zip(call.inputs, inputs))
        around = {name: given[name] if name in given else self.outside(name) for name in step.outside}
        steps = Steps(around, {name: len(rows) for name, rows in states.items()}, {})
        lstm = self.lstm
        if lstm is not None and all(len(rows) == 1 for rows in states.values()):
            first = [rows[0] for rows in states.values()]
            lengths = None if lstm.lengths is None else around[lstm.lengths]
            parameters = (around[lstm.weights], around[lstm.bias], lengths)
            if lstm.fits(sequence, first, *parameters):
                return self._fused(lstm, sequence, first, parameters, steps)
        sources: dict[str, Any] = {**given, **states}
        for link in [*step.incoming, *step.outgoing]:
            if link.external not in sources:
                sources[link.external] = self.outside(link.external)
        left_by: dict[int, dict[str, Any]] = {}
        steps.local = left_by
        for t in range(length):
            local = {link.internal: self._read(sources[link.external], link, t) for link in step.incoming}
            left = step.run(self.time(t), {**around, **local})
            for link in step.outgoing:
                self._write(states, link, t, left)
            for name in step.updated:
                around[name] = left[name]
            if self.keeps or t == length - 1:
                left_by[t] = {name: value for name, value in left.items()
                              if name not in around and name not in self.recomputed}
        for name in step.updated:
            call.workspace.values[name] = around[name]
        whole = {}
        for name, rows in states.items():
            whole[name] = xp.concat(rows, axis=0) if rows else firsts[name]
            steps.rows[name] = rows[0] if rows else firsts[name]
        return self._outputs(whole, steps)

    def _fused(self, lstm: fused_lstm.LSTM, sequence: Any, first: Sequence[Any], parameters: tuple[Any, Any, Any],
               steps: Steps) -> tuple[Any, ...]:
        hidden, cell = first
        kept, sums = lstm.forward(sequence, hidden, cell, *parameters)
        whole = dict(zip(self.definition.states, (kept.hidden, kept.cell)))
        steps.rows = {name: rows[:1] for name, rows in whole.items()}
        steps.local = lstm.left_by_steps(sequence, kept, sums)
        if self.keeps:
            steps.activations = kept
        return self._outputs(whole, steps)

    def _outputs(self, whole: Mapping[str, Any], steps: Steps) -> tuple[Any, ...]:
        made = []
        for k in range(self.call.num_outputs - 1):
            source, _, offset = self.definition.output(k)
            made.append(whole[source][_start(offset, whole[source].shape[0]):])
        return (*made, steps)

    def _read(self, source: Any, link: Link, t: int) -> Any:
        rows = source[_window(source, link, t)]
        if not isinstance(rows, list):
            return rows
        return rows[0] if link.window == 1 else self.xp.concat(rows, axis=0)

    def _write(self, states: Mapping[str, Rows], link: Link, t: int, left: Mapping[str, Any]) -> None:
        rows = states.get(link.external)
        if rows is None:
            raise BadArgument(f"the step net makes {link.internal!r}, which is linked to {link.external!r}; that is no "
                              "recurrent state")
        start = t + link.offset
        if start != len(rows):
            raise BadIndex(f"{link.internal!r} is to be row {start} of {link.external!r} at time {t}, where row "
                           f"{len(rows)} comes next; link what a step makes to the row after the first ones")
        rows += _as_rows(self.xp, link, left, rows[0].shape[1:] if rows else None)


def _start(offset: int, rows: int) -> int:
    return offset if offset >= 0 else rows + offset


def _as_rows(xp: Any, link: Link, left: Mapping[str, Any], shape: tuple[int, ...] | None) -> Rows:
    """What the step made, as rows of the state."""
    value = left[link.internal]
    if (shape is not None and value.shape[1:] != shape) or value.shape[0] != link.window:
        wanted = (link.window, *(value.shape[1:] if shape is None else shape))
        if _size(value.shape) != _size(wanted):
            raise BadShape(f"the step net made {link.internal!r} of shape {tuple(value.shape)}; as rows of the state "
                           f"{link.external!r} it has to be {tuple(wanted)}")
        value = xp.reshape(value, wanted)
    return [value] if link.window == 1 else [value[k:k + 1] for k in range(link.window)]


def _size(shape: Sequence[int]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size


def _first_rows(xp: Any, name: str, value: Any, batch: int) -> Rows:
    """The rows of a state's first value: (L, N, ...), or (N, D), or (D,) for all sequences alike."""
    if value.ndim == 1:
        value = xp.broadcast_to(value, (1, batch, value.shape[0]))
    elif value.ndim == 2:
        value = xp.expand_dims(value, axis=0)
    if value.ndim < 3 or value.shape[1] != batch:
        raise BadShape(f"the first value {name!r} of a state has shape {tuple(value.shape)}, and the sequence a batch "
                       f"of {batch}; (L, {batch}, D), ({batch}, D) or (D,) is expected")
    return [value[k:k + 1] for k in range(value.shape[0])]


class Backward(_Runner):
    """A RecurrentNetworkGradient, bound."""

    def __init__(self, call: Call, known: Collection[str] | None = None) -> None:
        super().__init__(call, "backward_link", "backward_step_net", None)
        self.with_gradient = _numbers(call, "outputs_given") or _numbers(call, "outputs_with_grads")
        self.params = _numbers(call, "param")
        self.param_gradients = _texts(call, "param_grads")
        before = len(self.with_gradient)
        if not self.param_gradients:
            self.param_gradients = [f"{call.inputs[before + k]}_grad" for k in self.params]
        self.parameters = dict(zip((call.inputs[before + k] for k in self.params), self.param_gradients))
        if self.lstm is not None and not fused_lstm.is_gradient_of(
                self.lstm, net_in(call, "backward_step_net") or caffe2_pb2.NetDef(), self.definition.links,
                self.definition.states, self.parameters):
            self.lstm = None
        places = {(f"{link.external}_grad", link.offset): link.internal for link in _links(call, "link")}
        #: gradient that a step is given -> the blob whose gradient it is, and whose shape it has
        self.shaped_like = {link.internal: places[link.external, link.offset] for link in self.step.incoming
                            if (link.external, link.offset) in places}

    def run(self) -> tuple[Any, ...]:
        """The gradients of the input, the parameters and the states' first values."""
        call = self.call
        return self.of([*self.inputs(call.num_inputs - 1), call.workspace.values.get(call.inputs[-1])])

    def of(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The gradients that values of its inputs give."""
        with self.threads_for(inputs[len(self.with_gradient)]):
            return self._run(inputs)

    def _run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        call, step, xp = self.call, self.step, self.xp
        forward = inputs[len(self.with_gradient):]
        sequence, steps = forward[0], forward[-1]
        if not isinstance(steps, Steps):
            raise WrongKind(f"its last input {call.inputs[-1]!r} is not what RecurrentNetwork left there")
        length = sequence.shape[0]
        self.operators_run = length * len(step.net.definition.op)
        if len(steps.local) < length:
            raise WrongKind(f"{call.inputs[-1]!r} holds {len(steps.local)} steps of {length}; run RecurrentNetwork on "
                            "the same sequence before")
        gradients: dict[str, Rows] = {f"{name}_grad": [None] * (first + length) for name, first in steps.first.items()}
        of_input: Rows = [None] * length
        for k, gradient in zip(self.with_gradient, inputs):
            self._enter(gradients, k, gradient)
        if self.lstm is not None and steps.activations is not None:
            return self._fused(self.lstm, steps, gradients, forward)
        around = dict(steps.around)
        if length:
            around.update({name: self.outside(name) for name in step.outside
                           if name not in steps.around and name not in steps.local[0]})
        sums = [xp.zeros_like(forward[k]) for k in self.params]
        for t in range(length - 1, -1, -1):
            given = {**around, **steps.local[t]}
            for link in step.incoming:
                rows = gradients.get(link.external, of_input)
                value = self._rows(rows[_window(rows, link, t)], steps, link.external)
                like = steps.local[t].get(self.shaped_like.get(link.internal, ""))
                if like is not None and like.shape != value.shape:
                    value = xp.reshape(value, like.shape)
                given[link.internal] = value
            left = step.run(self.time(t), given)
            for link in step.outgoing:
                rows = gradients.get(link.external, of_input)
                shape = steps.rows[link.external.removesuffix("_grad")].shape[1:] if link.external in gradients \
                    else sequence.shape[1:]
                window = _window(rows, link, t)
                for k, row in zip(range(window.start, window.stop), _as_rows(xp, link, left, shape)):
                    rows[k] = row if rows[k] is None else rows[k] + row
            for k, name in enumerate(self.param_gradients):
                sums[k] = sums[k] + left[name]
        made = [xp.concat([xp.zeros_like(sequence[:1]) if row is None else row for row in of_input], axis=0)
                if length else xp.zeros_like(sequence)]
        made += sums
        for name, k in zip(self.definition.states, self.definition.initial):
            rows = gradients[f"{name}_grad"][:steps.first[name]]
            made.append(self._of_first(rows, steps, f"{name}_grad", forward[k]))
        return tuple(made)

    def _fused(self, lstm: fused_lstm.LSTM, steps: Steps, gradients: Mapping[str, Rows],
               forward: Sequence[Any]) -> tuple[Any, ...]:
        assert steps.activations is not None
        of_states = (gradients[f"{name}_grad"] for name in self.definition.states)
        of_input, of_weights, of_bias, *of_first = lstm.backward(
            steps.activations, steps.around[lstm.weights], *of_states)
        by_gradient = {self.parameters[lstm.weights]: of_weights, self.parameters[lstm.bias]: of_bias}
        made = [of_input, *(by_gradient[name] for name in self.param_gradients)]
        for gradient, k in zip(of_first, self.definition.initial):
            value = forward[k]
            made.append(gradient.sum(0) if value.ndim == 1 else gradient.reshape(value.shape))
        return tuple(made)

    def _enter(self, gradients: dict[str, Rows], output: int, gradient: Any) -> None:
        """Enters the gradient of an output into the rows of its state."""
        state, name, offset = self.definition.output(output)
        rows = gradients[f"{state}_grad"]
        start = _start(offset, len(rows))
        if gradient.shape[0] != len(rows) - start:
            raise BadShape(f"the gradient of {name!r} has {gradient.shape[0]} rows; the output has {len(rows) - start}")
        gradient = self.xp.asarray(gradient, copy=True)  # a row may become the gradient of a first value as it is
        for k in range(start, len(rows)):
            row = gradient[k - start:k - start + 1]
            rows[k] = row if rows[k] is None else rows[k] + row

    def _rows(self, rows: Rows, steps: Steps, name: str) -> Any:
        xp = self.xp
        like = steps.rows[name.removesuffix("_grad")]
        found = [xp.zeros_like(like) if row is None else row for row in rows]
        return found[0] if len(found) == 1 else xp.concat(found, axis=0)

    def _of_first(self, rows: Rows, steps: Steps, name: str, value: Any) -> Any:
        if not rows:
            return self.xp.zeros_like(value)
        gradient = self._rows(rows, steps, name)
        if value.ndim == 1:
            return self.xp.sum(gradient, axis=(0, 1), dtype=gradient.dtype)
        return self.xp.reshape(gradient, value.shape)


def prepare(call: Call, known: Collection[str] | None) -> None:
    """Binds the step net of a recurrent operator when the net around it is created."""
    call.inside = (Forward if call.type == "RecurrentNetwork" else Backward)(call, known)
