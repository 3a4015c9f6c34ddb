"""A recognised LSTM step net, on torch: all time steps in one loop over storage made once.

What is saved against running step nets is the way from operator to operator, and two products per step: those of the
parameters' gradients are made once for all steps. The states, and what the step nets would have left, are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrad.graph.arguments import value_of

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class Activations:
    """What a forward run keeps for the gradient.

    Attributes:
        hidden, cell: the states, (T + 1, N, D).
        gates: input, forget and output gate and candidate, after their functions, (T, N, 4 D).
        squashed: tanh of the cell, (T, N, D).
        ended: for each step (N, 1), which sequences have ended; None where none has.
    """

    hidden: Tensor
    cell: Tensor
    gates: Tensor
    squashed: Tensor
    ended: list[Tensor | None]


@dataclass(frozen=True)
class LSTM:
    """The names of a step net that is an LSTM, and its arguments."""

    input: str
    hidden_prev: str
    cell_prev: str
    weights: str
    bias: str
    gates: str
    lengths: str | None
    hidden: str
    cell: str
    forget_bias: float
    drop_states: bool

    def fits(self, sequence: Tensor, first: Sequence[Tensor], weights: Tensor, bias: Tensor,
             lengths: Tensor | None) -> bool:
        """Whether shapes and dtypes go together; if not, the step nets say what is wrong, or how to compute it."""
        batch, width = sequence.shape[1], first[0].shape[-1]
        same = all(x.dtype == sequence.dtype and x.device == sequence.device for x in (*first, weights, bias))
        return (same and sequence.ndim == 3 and sequence.shape[2] == 4 * width and weights.shape == (4 * width, width)
                and bias.shape == (4 * width,) and all(x.shape == (1, batch, width) for x in first)
                and (lengths is None or (lengths.shape == (batch,) and lengths.device == sequence.device)))

    def forward(self, sequence: Tensor, hidden: Tensor, cell: Tensor, weights: Tensor, bias: Tensor,
                lengths: Tensor | None) -> tuple[Activations, Tensor]:
        """All steps; also the sums that go into the gates, (T, N, 4 D)."""
        import torch

        length, batch, width = sequence.shape[0], sequence.shape[1], hidden.shape[-1]
        sums = sequence + bias
        kept = Activations(sums.new_empty((length + 1, batch, width)), sums.new_empty((length + 1, batch, width)),
                           torch.empty_like(sums), sums.new_empty((length, batch, width)),
                           _ended(lengths, length))
        kept.hidden[0], kept.cell[0] = hidden, cell
        transposed, states, cells = weights.t().contiguous(), kept.hidden.unbind(0), kept.cell.unbind(0)
        # views of all steps at once: taking them in the loop would cost as much as an operation on them
        squashing, sums_of_f, candidates = (sums[..., part].unbind(0) for part in (
            slice(3 * width), slice(width, 2 * width), slice(3 * width, None)))
        squashed_gates = kept.gates[..., :3 * width].unbind(0)
        gates = zip(*(part.unbind(0) for part in kept.gates.split(width, dim=2))) if length else ()
        steps = zip(sums.unbind(0), gates, kept.squashed.unbind(0))
        for t, (total, (i, f, o, g), squashed) in enumerate(steps):
            total.addmm_(states[t], transposed)
            torch.sigmoid(squashing[t], out=squashed_gates[t])
            if self.forget_bias:
                torch.add(sums_of_f[t], self.forget_bias, out=f).sigmoid_()
            torch.tanh(candidates[t], out=g)
            torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, g)
            torch.tanh(cells[t + 1], out=squashed)
            torch.mul(o, squashed, out=states[t + 1])
            ended = kept.ended[t]
            if ended is not None:
                for rows in (states, cells):
                    rows[t + 1].copy_(torch.where(ended, 0 if self.drop_states else rows[t], rows[t + 1]))
        return kept, sums

    def backward(self, kept: Activations, weights: Tensor, of_hidden: Sequence[Tensor | None],
                 of_cell: Sequence[Tensor | None]) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Gradients of the input, the weights, the bias, the first hidden state and the first cell.

        Args:
            kept: of the forward run.
            weights: (4 D, D).
            of_hidden, of_cell: for each row of the states the gradient from outside, (1, N, D), or None.
        """
        import torch

        aten: Any = torch.ops.aten
        sigmoid_backward, tanh_backward = aten.sigmoid_backward.grad_input, aten.tanh_backward.grad_input
        length, batch, width = kept.squashed.shape
        zeros = torch.zeros_like(kept.hidden[0])
        dh, dc = _added(zeros, of_hidden[-1]), _added(zeros, of_cell[-1])
        # what the gradients of a step are multiplied by depends on the forward run alone: it is made for all steps
        # at once, where the gradients of the sums will be
        of_sums = torch.empty_like(kept.gates)
        factors = of_sums.view(length, batch, 4, width)
        i, f, o, g = kept.gates.view(length, batch, 4, width).unbind(2)
        sigmoid_backward(g, i, grad_input=factors[:, :, 0])
        sigmoid_backward(kept.cell[:-1], f, grad_input=factors[:, :, 1])
        sigmoid_backward(kept.squashed, o, grad_input=factors[:, :, 2])
        tanh_backward(i, g, grad_input=factors[:, :, 3])
        from_hidden = aten.tanh_backward(o, kept.squashed).unbind(0)
        forget, into_states, into_output, into_candidate, whole = (
            part.unbind(0) for part in (f, factors[:, :, :2], factors[:, :, 2], factors[:, :, 3], of_sums))
        for t in range(length - 1, -1, -1):
            ended = kept.ended[t]
            past_dh = past_dc = None
            if ended is not None:
                if not self.drop_states:
                    past_dh, past_dc = torch.where(ended, dh, 0), torch.where(ended, dc, 0)
                dh, dc = torch.where(ended, 0, dh), torch.where(ended, 0, dc)
            through = torch.addcmul(dc, dh, from_hidden[t])
            into_states[t].mul_(through.unsqueeze(1))
            into_candidate[t].mul_(through)
            into_output[t].mul_(dh)
            more = of_hidden[t]
            dh = torch.mm(whole[t], weights) if more is None else torch.addmm(more[0], whole[t], weights)
            dc = through.mul_(forget[t])
            for past, gradient in ((past_dh, dh), (past_dc, dc)):
                if past is not None:
                    gradient.add_(past)
            dc = _added(dc, of_cell[t])
        flat = of_sums.view(-1, 4 * width)
        of_weights = torch.mm(flat.t(), kept.hidden[:-1].reshape(-1, width))
        return of_sums, of_weights, flat.sum(0), dh, dc

    def left_by_steps(self, sequence: Tensor, kept: Activations, sums: Tensor) -> Mapping[int, dict[str, Tensor]]:
        """What the step nets would have left."""
        hidden, cell = kept.hidden, kept.cell
        return _Rows({self.input: sequence, self.hidden_prev: hidden[:-1], self.cell_prev: cell[:-1], self.gates: sums,
                      self.hidden: hidden[1:], self.cell: cell[1:]}, sequence.shape[0])


class _Rows(Mapping[int, dict[str, "Tensor"]]):
    """Time -> name -> the row of that time, taken when asked for."""

    def __init__(self, whole: Mapping[str, Tensor], length: int) -> None:
        self.whole = whole
        self.length = length

    def __getitem__(self, t: int) -> dict[str, Tensor]:
        if not 0 <= t < self.length:
            raise KeyError(t)
        return {name: rows[t:t + 1] for name, rows in self.whole.items()}

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))

    def __len__(self) -> int:
        return self.length


def _added(gradient: Tensor, more: Tensor | None) -> Tensor:
    return gradient if more is None else gradient + more[0]


def _ended(lengths: Tensor | None, length: int) -> list[Tensor | None]:
    """For each step which sequences have ended, (N, 1); None where none has."""
    if lengths is None or not length:
        return [None] * length
    shortest = int(lengths.min()) if lengths.numel() else length
    return [None if t < shortest else (lengths <= t).unsqueeze(1) for t in range(length)]


def recognise(net: Any, links: Sequence[tuple[str, str, int, int]], states: Sequence[str], sequence: str,
              timestep: str) -> LSTM | None:
    """The LSTM that a step net is: FC of the hidden state, Sum with the input, LSTMUnit; None for any other net."""
    if [op.type for op in net.op] != ["FC", "Sum", "LSTMUnit"] or len(states) != 2 or any(
            op.device_option.device_type or op.engine not in ("", "CUDNN") for op in net.op):
        return None
    linear, total, unit = net.op
    options = {argument.name: value_of(argument) for argument in unit.arg}
    with_lengths = bool(options.get("sequence_lengths", True))
    axes = {argument.name: value_of(argument) for argument in linear.arg}
    if axes.get("axis", 1) != 2 or axes.get("axis_w", 1) != 1 or len(linear.input) != 3 or len(total.input) != 2 \
            or len(unit.input) != 4 + with_lengths:
        return None
    hidden_prev, weights, bias = linear.input
    input = next((name for name in total.input if name != linear.output[0]), "")
    found = LSTM(input, hidden_prev, unit.input[1], weights, bias, total.output[0],
                 unit.input[3] if with_lengths else None, unit.output[0], unit.output[1],
                 float(options.get("forget_bias", 0.0)), bool(options.get("drop_states", False)))
    expected = {(hidden_prev, states[0], 0, 1), (found.hidden, states[0], 1, 1), (found.cell_prev, states[1], 0, 1),
                (found.cell, states[1], 1, 1), (input, sequence, 0, 1)}
    inside = {input, hidden_prev, found.cell_prev, linear.output[0], found.gates, found.hidden, found.cell, timestep}
    same = (set(links) == expected and len(links) == 5 and unit.input[0] == hidden_prev
            and unit.input[2] == found.gates and unit.input[-1] == timestep and linear.output[0] in total.input
            and inside.isdisjoint({weights, bias, found.lengths}) and len(inside) >= 7)
    return found if same else None


def is_gradient_of(lstm: LSTM, net: Any, links: Sequence[tuple[str, str, int, int]], states: Sequence[str],
                   parameters: Mapping[str, str]) -> bool:
    """Whether a backward step net is just what differentiating the LSTM's step net gives.

    Args:
        parameters: blob -> its gradient, for those whose gradient is asked for.
    """
    if [op.type for op in net.op] != ["LSTMUnitGradient", "FCGradient", "Sum"]:
        return False
    unit, linear, total = net.op
    of_hidden, of_cell, of_gates = unit.output
    given = list(unit.input[-2:])
    expected = {(given[0], f"{states[0]}_grad", 1), (of_hidden, f"{states[0]}_grad", 0),
                (given[1], f"{states[1]}_grad", 1), (of_cell, f"{states[1]}_grad", 0)}
    found = {link[:3] for link in links}
    rest = found - expected
    return (len(links) == 5 and len(rest) == 1 and next(iter(rest))[0] == of_gates
            and parameters == {lstm.weights: linear.output[0], lstm.bias: linear.output[1]}
            and list(linear.input) == [lstm.hidden_prev, lstm.weights, of_gates]
            and list(total.input) == [of_hidden, linear.output[2]] and list(total.output) == [of_hidden]
            and list(unit.input[:3]) == [lstm.hidden_prev, lstm.cell_prev, lstm.gates])
