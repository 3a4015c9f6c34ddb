"""The language of gradient rules: how a declaration says which operators make its derivative.

Most rules emit one operator with fixed inputs and outputs; `emits` states those in a line, and the backward walk
compiles them. A rule with choices is a function of a `Rule`, which hands out references to forward values, cotangents
and input gradients. References are opaque: the walk decides names, so that a rule can be redirected without knowing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

#: A value of the backward pass (a forward version, a cotangent, a scratch value). Rules only pass them on.
Ref = int


class NoRule(Exception):
    """The operator has no gradient here; the message says why."""


class GradientNotProvided(Exception):
    """A rule needs the gradient of an output to which nothing flows."""

    def __init__(self, output: int) -> None:
        super().__init__(output)
        self.output = output


class Rule(Protocol):
    """What a gradient function receives: one forward operator in the midst of the backward walk."""

    type: str
    num_inputs: int
    num_outputs: int
    #: whether emitted operators receive the forward operator's arguments, after their own (Caffe2's habit)
    copy_arguments: bool
    copy_engine: bool
    copy_device: bool

    @property
    def in_pass(self) -> bool:
        """Whether the rule is applied within a backward pass, where lost values are noticed, or to one operator."""

    @property
    def saves(self) -> bool:
        """Whether values that were overwritten may be asked for: they will have been put aside."""

    def arg(self, name: str, default: Any = None) -> Any:
        """The value of an argument of the forward operator, as Python; ``default`` when it is absent."""

    def has_arg(self, name: str) -> bool: ...

    def argument_names(self) -> list[str]:
        """The names of the forward operator's arguments, in their order."""

    def input_name(self, k: int) -> str: ...

    def output_name(self, k: int) -> str: ...

    def I(self, k: int) -> Ref:  # noqa: E743
        """The value that input k had when the operator read it."""

    def O(self, k: int) -> Ref:  # noqa: E743
        """The value that the operator wrote to output k."""

    def GO(self, k: int) -> Ref:
        """The dense gradient of output k; without one the use is refused (or zeros are supplied, if asked for)."""

    def GO_or_zeros(self, k: int) -> Ref:
        """The dense gradient of output k; zeros when there is none (Split, where leaving it out would be wrong)."""

    def has_GO(self, k: int) -> bool:
        """Whether output k has a gradient, dense or sparse."""

    def is_sparse_GO(self, k: int) -> bool: ...

    def GO_slice(self, k: int) -> tuple[Ref, Ref]:
        """Indices and values of a sparse gradient of output k."""

    def GI(self, k: int) -> Ref:
        """The gradient of input k: as an output it is made, as an input it is what was written last."""

    def GI_indices(self, k: int) -> Ref:
        """Indices of the sparse gradient of input k (``<input>_grad_indices``)."""

    def GI_values(self, k: int) -> Ref:
        """Values of the sparse gradient of input k (``<input>_grad_values``)."""

    def wants(self, k: int) -> bool:
        """Whether anybody asked for the gradient of input k. Always true unless ``wrt`` was given."""

    def temp(self, name: str) -> Ref:
        """A scratch value of that name."""

    def outside(self, name: str) -> Ref:
        """A blob that others write between the forward and the backward operators, under just this name."""

    def emit(self, type: str, inputs: Sequence[Ref], outputs: Sequence[Ref], **arguments: Any) -> None:
        """Appends an operator. Keyword arguments become its arguments: int, float, str, bytes and lists of them."""

    def through_nets(self) -> None:
        """Emits the gradient of an operator that runs nets: one that runs their gradients."""

    def through_kernel(self) -> None:
        """Emits the gradient that follows from the operator's kernel: one operator that carries it."""

    def set_GI(self, k: int, value: Ref) -> None:
        """The gradient of input k is ``value`` itself: nothing is computed (the output's gradient passes through)."""

    def set_GI_slice(self, k: int, indices: Ref, values: Ref) -> None:
        """The gradient of input k is the slice (``indices``, ``values``), neither of which need be computed here."""

    def fail(self, reason: str) -> NoRule:
        """An error that says why this use of the operator has no gradient; to be raised."""


RuleFunction = Callable[[Rule], None]


@dataclass(frozen=True)
class Emits:
    """A rule that emits one operator. References are (kind, k): kind I, O, GO for inputs and GI, O for outputs."""

    type: str
    inputs: tuple[tuple[str, int], ...]
    outputs: tuple[tuple[str, int], ...]
    copy_arguments: bool = True
    arguments: tuple[tuple[str, Any], ...] = ()

    def __call__(self, rule: Rule) -> None:
        rule.copy_arguments = self.copy_arguments
        rule.emit(self.type, [getattr(rule, kind)(k) for kind, k in self.inputs],
                  [getattr(rule, kind)(k) for kind, k in self.outputs], **dict(self.arguments))


def _references(text: str, allowed: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    found = []
    for word in text.split():
        kind = word.rstrip("0123456789")
        if kind not in allowed or kind == word:
            raise ValueError(f"{word!r} is no reference: expected one of {', '.join(a + '0' for a in allowed)}, ...")
        found.append((kind, int(word[len(kind):])))
    return tuple(found)


def emits(type: str, inputs: str, outputs: str, *, copy_arguments: bool = True, **arguments: Any) -> Emits:
    """The rule "one operator": ``emits("FCGradient", "I0 I1 GO0", "GI1 GI2 GI0")``.

    I0 is the value that input 0 had, O0 what was written to output 0, GO0 the gradient of output 0, GI0 the gradient of
    input 0.
    """
    return Emits(type, _references(inputs, ("I", "O", "GO")), _references(outputs, ("GI",)), copy_arguments,
                 tuple(arguments.items()))


@dataclass(frozen=True)
class PassThrough:
    """Every input's gradient is the output's gradient itself; no operator is emitted (Sum, Alias)."""

    all_inputs: bool = True

    def __call__(self, rule: Rule) -> None:
        for k in range(rule.num_inputs if self.all_inputs else 1):
            if rule.is_sparse_GO(0):
                rule.set_GI_slice(k, *rule.GO_slice(0))
            else:
                rule.set_GI(k, rule.GO(0))


#: every input takes the gradient of output 0
pass_through = PassThrough()
#: only input 0 does
pass_through_first = PassThrough(all_inputs=False)


@dataclass(frozen=True)
class NoGradient:
    """The flow ends here: inputs have no gradient and that is right (comparisons, StopGradient)."""

    reason: str = "its outputs do not depend on its inputs differentiably"

    def __call__(self, rule: Rule) -> None:
        return


no_gradient = NoGradient()


@dataclass(frozen=True)
class Forbidden:
    """Asking for a gradient is an error, and this is why."""

    reason: str = "the operator is not meant to be differentiated"

    def __call__(self, rule: Rule) -> None:
        raise rule.fail(self.reason)


def forbidden(reason: str = Forbidden.reason) -> Forbidden:
    """The rule of an operator whose gradient nobody should ask for, and why."""
    return Forbidden(reason)


def not_implemented(reason: str = "a derivative exists but no rule has been written for it") -> Forbidden:
    """Caffe2 declares these as "gradient not implemented yet"."""
    return Forbidden(reason)


def through_nets(rule: Rule) -> None:
    """The rule of If, While and Do: the nets that they run are differentiated."""
    rule.through_nets()


def through_kernel(rule: Rule) -> None:
    """The rule of an operator whose derivative is taken from its kernel, which must compute by ``xp`` alone.

    The gradients of all inputs that are not declared ``differentiable=False`` are computed at once, by one operator.
    A rule by hand is faster where the derivative is known; this one is right wherever the kernel is.
    """
    rule.through_kernel()
