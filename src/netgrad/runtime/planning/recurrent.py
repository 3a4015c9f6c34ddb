"""The pass that runs an LSTM, with the layer that projects its input, as one layer of oneDNN.

Caffe2 writes an LSTM as an FC of the whole sequence and a RecurrentNetwork; its gradient as a RecurrentNetworkGradient
and an FCGradient. Where the step net is an LSTM's (`netgrad.recurrent.fused_lstm`) and no sequence ends early, oneDNN
computes both operators at once. It makes neither the projected sequence nor its gradient, nor the cells of all steps,
nor what steps leave behind: if the net does not read them, the operators themselves compute them when somebody looks
(`Blobs`), from what they read in the run.

A run falls back to the operators where arrays are not dense ones in single precision on the CPU, or a sequence is
shorter than the longest.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netgrad.runtime.pending import Blobs
from netgrad.runtime.planning.draft import Draft
from netgrad.runtime.planning.fused import Fused
from netgrad.runtime.steps import Step

_NAME = "recurrent"
_ALL, _LAST = "all", "last"


class Layer(Fused):
    """An FC and the RecurrentNetwork that reads it."""

    __slots__ = ("array_type", "blobs", "fitting", "keeps", "kept", "made", "names", "network", "projection",
                 "torch_layer")

    def __init__(self, projection: Step, network: Step, positions: Sequence[int], blobs: Blobs, keeps: bool) -> None:
        super().__init__([projection, network], positions)
        from netgrad.runtime.backends.torch import lstm_layer

        assert network.call is not None
        self.torch_layer: Any = lstm_layer
        self.blobs = blobs
        self.array_type = network.array_type
        self.projection = projection
        #: the operator's own way to run
        self.network: Any = network.call.inside
        #: whether the net has the gradient as well
        self.keeps = keeps
        #: of the last run, for its gradient: what oneDNN keeps, and how the rest is computed
        self.kept: tuple[Any, Layered] | None = None
        self.names = [*projection.inputs, *network.call.inputs[1:]]
        #: shapes, dtypes and devices of a run that oneDNN served
        self.fitting: list[Any] = []
        #: for each output but the last, the state that it shows and which steps of it
        self.made = _outputs(self.network)

    def run(self) -> None:
        self.kept = None
        blobs, array_type = self.blobs, self.array_type
        values = {}
        for name in self.names:
            values[name] = value = blobs.get(name)
            if type(value) is not array_type:
                return self.run_plainly()
        arguments = self._arguments(values)
        if arguments is None:
            return self.run_plainly()
        run = self.torch_layer.forward(*arguments, forget_bias=self.network.lstm.forget_bias, keeps=self.keeps)
        layered = Layered(self, values, run)
        blobs.defer(self.projection.outputs[0], layered.projected)
        outputs = self.network.call.outputs
        for k, (name, (state, steps)) in enumerate(zip(outputs, self.made)):
            if state:
                if steps is _LAST:
                    blobs[name] = run.last_cell.unsqueeze(0)
                else:
                    blobs.defer(name, functools.partial(layered.output, k))
            else:
                blobs[name] = run.hidden[-1:] if steps is _LAST else run.hidden
        blobs.defer(outputs[-1], functools.partial(layered.output, -1))
        if self.keeps:
            self.kept = run, layered
        return None

    def _arguments(self, values: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """What oneDNN's layer is given; None where it does not serve."""
        lstm, inputs = self.network.lstm, self.network.call.inputs
        kinds = [(value.shape, value.dtype, value.device) for value in values.values()]
        X, W, b = (values[name] for name in self.projection.inputs)
        weights, bias = values[lstm.weights], values[lstm.bias]
        first = [_row(values[inputs[k]]) for k in self.network.definition.initial]
        lengths = None if lstm.lengths is None else values[lstm.lengths]
        if kinds != self.fitting:
            if not _fit(X, W, b, weights, bias, first, lengths):
                return None
            self.fitting = kinds
        if lengths is not None and int(lengths.min()) < X.shape[0]:
            return None
        return X, W, weights, b + bias, *(value.expand(X.shape[1], weights.shape[1]) for value in first)

    def without_storage(self) -> Iterator[tuple[int, int]]:
        yield self.positions[0], 0
        for k, (state, steps) in enumerate(self.made):
            if state and steps is not _LAST:
                yield self.positions[1], k


class Layered:
    """What a run of a `Layer` left out, computed by the operators themselves."""

    def __init__(self, layer: Layer, values: Mapping[str, Any], run: Any) -> None:
        self.layer = layer
        #: oneDNN's copies of the weights, held instead of the weights themselves, so that updates may write into these
        self._copies = {layer.projection.inputs[1]: run.inputs[1], layer.network.lstm.weights: run.inputs[2]}
        self._values = {name: value for name, value in values.items() if name not in self._copies}

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """What the operators read."""
        return self._values | {name: self.layer.torch_layer.swapped(copy) for name, copy in self._copies.items()}

    @functools.cached_property
    def _projected(self) -> Any:
        step = self.layer.projection
        return step.kernel(*(self.values[name] for name in step.inputs), *step.absent)

    def first(self, k: int) -> Any:
        """Input k of the RecurrentNetwork, the first value of a state."""
        name = self.layer.network.call.inputs[k]
        return self._values[name] if name in self._values else self.values[name]

    def inputs(self) -> list[Any]:
        """The inputs of the RecurrentNetwork."""
        network = self.layer.network
        return [self._projected, *(self.values[name] for name in network.call.inputs[1:])]

    @functools.cached_property
    def _outputs(self) -> tuple[Any, ...]:
        outputs: tuple[Any, ...] = self.layer.network.of(self.inputs())
        return outputs

    def projected(self) -> Any:
        with self.layer.projection.backend.running():
            return self._projected

    def output(self, k: int) -> Any:
        """Output k of the RecurrentNetwork."""
        with self.layer.projection.backend.running():
            return self._outputs[k]


class LayerBackward(Fused):
    """The RecurrentNetworkGradient and the FCGradient of a `Layer`."""

    __slots__ = ("array_type", "blobs", "given", "gradient", "layer", "network", "outputs", "projection")

    def __init__(self, layer: Layer, network: Step, projection: Step, positions: Sequence[int], blobs: Blobs) -> None:
        super().__init__([network, projection], positions)
        assert network.call is not None
        self.layer = layer
        self.blobs = blobs
        self.array_type = network.array_type
        self.network = network
        self.gradient: Any = network.call.inside
        self.projection = projection
        #: the gradients that it is given: name, state, steps
        self.given = [(name, *layer.made[k]) for k, name in zip(self.gradient.with_gradient, network.call.inputs)]

    def run(self) -> None:
        layer, blobs = self.layer, self.blobs
        kept, layer.kept = layer.kept, None
        gradients = [blobs.get(name) for name, _, _ in self.given]
        if kept is None or any(type(value) is not self.array_type for value in gradients):
            return self.run_plainly()
        run, layered = kept
        entered: dict[tuple[int, str], Any] = {}
        for (_, state, steps), value in zip(self.given, gradients):
            expected = run.hidden.shape if steps is _ALL else (1, *run.last_cell.shape)
            if value.shape != expected or value.dtype != run.hidden.dtype or not value.is_cpu:
                return self.run_plainly()
            value = value if steps is _ALL else value[0]
            before = entered.get((state, steps))
            entered[state, steps] = value if before is None else before + value
        dX, dW, of_weights, of_bias, *of_first = layer.torch_layer.backward(
            run, entered.get((0, _ALL)), entered.get((0, _LAST)), entered.get((1, _LAST)))
        gradient, lstm = self.gradient, self.gradient.lstm
        by_gradient = {gradient.parameters[lstm.weights]: of_weights, gradient.parameters[lstm.bias]: of_bias}
        made = [by_gradient[name] for name in gradient.param_gradients]
        for value, k in zip(of_first, gradient.definition.initial):
            like = layered.first(k)
            made.append(value.sum(0) if like.ndim == 1 else value.reshape(like.shape))
        outputs = self.network.outputs
        blobs.defer(outputs[0], functools.partial(self._of_projected, layered, gradients))
        for name, value in zip(outputs[1:], made):
            blobs[name] = value
        for name, value in zip(self.projection.outputs, (dW, of_bias.clone(), dX)):
            blobs[name] = value
        return None

    def _of_projected(self, layered: Layered, gradients: Sequence[Any]) -> Any:
        """The gradient of the projected sequence."""
        call = self.network.call
        assert call is not None
        outputs = [None] * (layered.layer.network.call.num_outputs - 1)
        with self.network.backend.running():
            return self.gradient.of([*gradients, *layered.inputs(), *outputs, layered.output(-1)])[0]

    def without_storage(self) -> Iterator[tuple[int, int]]:
        yield self.positions[0], 0


def _row(first: Any) -> Any:
    """The first value of a state without the leading dimension of one row."""
    return first[0] if first.ndim == 3 and first.shape[0] == 1 else first


def _fit(X: Any, W: Any, b: Any, weights: Any, bias: Any, first: Sequence[Any], lengths: Any) -> bool:
    """Whether an LSTM's arrays are dense ones in single precision on the CPU, and their shapes go together."""
    if X.ndim != 3 or W.ndim != 2 or not X.numel() or str(X.dtype) != "torch.float32":
        return False
    batch, width = X.shape[1], W.shape[0] // 4
    if (not width or W.shape != (4 * width, X.shape[2]) or weights.shape != (4 * width, width)
            or not b.shape == bias.shape == (4 * width,)):
        return False
    if any(value.ndim not in (1, 2) or value.shape[-1] != width or (value.ndim == 2 and value.shape[0] != batch)
           for value in first):
        return False
    if any(x.dtype != X.dtype or not x.is_cpu for x in (X, W, b, weights, bias, *first)):
        return False
    return lengths is None or (lengths.shape == (batch,) and bool(lengths.is_cpu))


def _outputs(network: Any) -> list[tuple[int, str]]:
    """For each output of a RecurrentNetwork but the last: the number of its state, and which steps of it; "" others."""
    found = []
    for k in range(network.call.num_outputs - 1):
        state, _, offset = network.definition.output(k)
        found.append((network.definition.states.index(state), {1: _ALL, -1: _LAST}.get(offset, "")))
    return found


def apply(draft: Draft) -> None:
    blobs = draft.workspace.values
    if draft.backend.name != "torch" or not isinstance(blobs, Blobs):
        return
    for position in range(1, len(draft.entries)):
        network = draft.plain(position)
        if network is None or network.binding.type != "RecurrentNetwork" or network.call is None or \
                network.call.inside.lstm is None:
            continue
        from netgrad.runtime.backends.torch.lstm_layer import serves

        if serves():
            _replace(draft, blobs, position, network)


def _replace(draft: Draft, blobs: Blobs, position: int, network: Step) -> None:
    projection = draft.plain(position - 1)
    if projection is None or not _is_projection(projection, "FC", 3, (1,)):
        return
    lives = draft.liveness
    (projected,) = lives.writes[position - 1]
    *written, left = lives.writes[position]
    assert network.call is not None
    forward = network.call.inside
    if projected is None or left is None or None in written or lives.reads[position][0] is not projected or \
            network.call.inputs.count(projected.blob) > 1 or \
            not set(forward.step.outside) <= set(network.call.inputs[1:]):
        return
    made = _outputs(forward)
    later = sorted({*left.read, *projected.read} - {position})
    left_out = [value for value, (state, steps) in zip(written, made) if state and steps is not _LAST]
    if len(later) > 1 or any(set(value.read) - set(later) for value in left_out if value is not None) or any(
            not steps and not state for state, steps in made):
        return
    pieces = _gradient(draft, position, later[0]) if later else None
    if later and (pieces is None or any(not made[k][1] or made[k] == (1, _ALL) for k in
                                        pieces[0].call.inside.with_gradient)):  # type: ignore[union-attr]
        return
    layer = Layer(projection, network, (position - 1, position), blobs, pieces is not None)
    draft.put(layer, _NAME, f"LSTM by one layer of oneDNN; {projected.blob} and the cells when fetched")
    if pieces is not None:
        draft.put(LayerBackward(layer, *pieces, (later[0], later[0] + 1), blobs), _NAME,
                  f"its gradient; {pieces[0].outputs[0]} when fetched")


def _gradient(draft: Draft, position: int, at: int) -> tuple[Step, Step] | None:
    """The RecurrentNetworkGradient at a position and the FCGradient after it, if they are those of an LSTM layer."""
    if at + 1 >= len(draft.entries):
        return None
    network, projection, lives = draft.plain(at), draft.plain(at + 1), draft.liveness
    if network is None or network.binding.type != "RecurrentNetworkGradient" or network.call is None or \
            network.call.inside.lstm is None or projection is None or \
            not _is_projection(projection, "FCGradient", 3, (2, 3)):
        return None
    of_projected = lives.writes[at][0]
    names = [*network.outputs, *projection.outputs]
    count = len(network.call.inside.with_gradient)
    expected = [*lives.reads[position], *lives.writes[position]]
    if of_projected is None or of_projected.read != [at + 1] or "" in names or len(set(names)) < len(names) or \
            lives.reads[at][count:] != expected or \
            lives.reads[at + 1] != [*lives.reads[position - 1][:2], of_projected]:
        return None
    return network, projection


def _is_projection(step: Step, type: str, inputs: int, outputs: Sequence[int]) -> bool:
    """Whether it is a fully connected layer over the last of three dimensions, or the gradient."""
    arguments, device = step.binding.arguments, step.binding.definition.device_option
    return (step.binding.type == type and isinstance(step.kernel, functools.partial)  # no pass has wrapped it
            and len(step.inputs) == inputs and len(step.outputs) in outputs and not device.device_type
            and "" not in step.inputs and arguments["axis"] == 2 and arguments["axis_w"] == 1)
