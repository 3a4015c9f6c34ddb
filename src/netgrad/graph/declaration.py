"""The declaration of an operator: one class that reads like a specification sheet.

Schema, documentation, shape inference, execution, gradient and generated tests all come from it. Subclassing `Operator`
registers the class under its own name. ``kernel``, ``shape`` and a function ``gradient`` are plain functions: there are
no instances.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from netgrad.graph import registry
from netgrad.graph.arguments import Arg


@dataclass(frozen=True)
class In:
    """An input.

    Attributes:
        name: what it is called in documentation and messages.
        doc: shape, dtype and meaning. Where it says "float", "int" or "numeric", tensors of
            other kinds are refused, whatever their width.
        optional: may be absent (only after all that may not).
        variadic: this input, or the whole group of inputs from the first variadic one on, may repeat.
        shape_only: only the shape is read, never a value: any version of the blob with that shape serves.
        differentiable: False where no derivative is taken (indices, lengths, labels); derivatives that are had from the
            kernel leave it out.
    """

    name: str
    doc: str = ""
    optional: bool = False
    variadic: bool = False
    shape_only: bool = False
    differentiable: bool = True

    @property
    def floating(self) -> bool:
        """Whether only tensors of a floating-point dtype are taken."""
        return _SAYS_FLOAT.search(self.doc) is not None

    @property
    def integral(self) -> bool:
        """Whether only tensors of whole numbers are taken."""
        return _SAYS_INT.search(self.doc) is not None and not self.floating and not self.shape_only

    @property
    def numeric(self) -> bool:
        """Whether tensors of truth values are refused."""
        return _SAYS_NUMERIC.search(self.doc) is not None


_SAYS_INT, _SAYS_NUMERIC = re.compile(r"\bint\b"), re.compile(r"\bnumeric\b")
_SAYS_FLOAT = re.compile(r"\bfloats?\b")


@dataclass(frozen=True)
class Out:
    """An output.

    Attributes:
        differentiable: False where a gradient that arrives here has nothing to act on (indices, masks, sizes).
        gradient_ignored: the output has a derivative, but the rule, as Caffe2's, has no term for it; said in a warning.
    """

    name: str
    doc: str = ""
    optional: bool = False
    variadic: bool = False
    differentiable: bool = True
    gradient_ignored: bool = False


@dataclass(frozen=True)
class Arity:
    """Which counts are allowed: ``least`` to ``most`` (None: any number), and the predicate if there is one."""

    least: int
    most: int | None
    only: Callable[[int], bool] | None = None
    words: str = ""

    def __contains__(self, count: int) -> bool:
        return (self.least <= count and (self.most is None or count <= self.most)
                and (self.only is None or self.only(count)))

    def __str__(self) -> str:
        if self.words:
            return self.words
        if self.most is None:
            return f"at least {self.least}" if self.least else "any number"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


def counts(*allowed: int) -> Arity:
    """Exactly these counts."""
    return Arity(min(allowed), max(allowed), frozenset(allowed).__contains__, " or ".join(map(str, sorted(allowed))))


def between(least: int, most: int | None) -> Arity:
    return Arity(least, most)


def multiple_of(n: int, least: int = 0) -> Arity:
    return Arity(least, None, lambda count: count % n == 0, f"a multiple of {n}")


#: in-place use of any pair of input and output is allowed
ANY_PAIR = frozenset({(-1, -1)})


def _arity(slots: Sequence[In | Out]) -> Arity:
    variadic = [s for s in slots if s.variadic]
    least = sum(not s.optional for s in slots)
    if not variadic:
        return Arity(least, len(slots))
    if len(variadic) > 1:  # a repeating group: pairs, triples
        fixed = len(slots) - len(variadic)
        return Arity(least, None, lambda count: (count - fixed) % len(variadic) == 0,
                     f"{fixed} and then groups of {len(variadic)}" if fixed else f"groups of {len(variadic)}")
    return Arity(least, None)


class Operator:
    """Base of all declarations. Subclass it, and the operator exists."""

    #: the operator's type in an OperatorDef; the name of the class unless set
    type: ClassVar[str] = ""
    inputs: ClassVar[tuple[In, ...] | list[In]] = ()
    outputs: ClassVar[tuple[Out, ...] | list[Out]] = ()
    arguments: ClassVar[tuple[Arg, ...] | list[Arg]] = ()
    #: arguments whose names begin like this are known too (``sub_policy_0_...``); kernels ask for them by name
    argument_prefixes: ClassVar[tuple[str, ...]] = ()
    #: allowed counts; derived from `inputs` and `outputs` unless set
    num_inputs: ClassVar[Arity | None] = None
    num_outputs: ClassVar[Arity | None] = None
    #: what Caffe2's schema says of counts together: (number of inputs, number of outputs) -> allowed
    num_inputs_outputs: ClassVar[Callable[[int, int], bool] | None] = None
    #: pairs (input, output) that may carry one name, and those that must
    inplace: ClassVar[frozenset[tuple[int, int]] | set[tuple[int, int]]] = frozenset()
    inplace_required: ClassVar[frozenset[tuple[int, int]] | set[tuple[int, int]]] = frozenset()
    #: outputs that a kernel may return as views of an input: pairs (input, output)
    shares: ClassVar[frozenset[tuple[int, int]] | set[tuple[int, int]]] = frozenset()

    #: shapes and dtypes of the outputs; None: not known before the run
    shape: ClassVar[Any] = None  # a ShapeFunction
    #: the largest shapes that the outputs can have, which is all that is told of them before the run; inputs may be
    #: unknown
    largest_shape: ClassVar[Any] = None  # a ShapeFunction
    #: whether an in-place use leaves the blob's shape as it was; derived from `shape` unless set
    inplace_keeps_shape: ClassVar[bool | None] = None
    #: computes the outputs: kernel(xp, *inputs, **arguments); None: this operator cannot run (yet)
    kernel: ClassVar[Callable[..., Any] | None] = None
    #: the gradient rule; None: there is none
    gradient: ClassVar[Any] = None  # a RuleFunction; said so, type checkers would take it for a method
    #: for operators that gradient rules emit: which inputs are read for their shape alone, where that depends on the
    #: arguments (else the inputs say so): shape_only(arguments, number of inputs) -> positions
    shape_only: ClassVar[Callable[[Mapping[str, Any], int], frozenset[int] | set[int]] | None] = None
    #: by which inputs the kernel has a derivative, where repeated slots cannot say so: number of inputs -> positions
    differentiable_inputs: ClassVar[Callable[[int], Iterable[int]] | None] = None
    #: whether all outputs have one shape, by the arguments (equal parts of a Split): outputs_alike(arguments, inputs)
    outputs_alike: ClassVar[Callable[[Mapping[str, Any], int], bool] | None] = None
    #: the forward-mode rule, for later: tangents of the outputs from those of the inputs
    tangent: ClassVar[Any] = None
    #: lowering to standard ONNX, for later
    onnx: ClassVar[Callable[..., Any] | None] = None

    #: what else running it does: "random", "state", "io", "blobs" (touches names beyond its inputs and outputs),
    #: "binds" (gives its outputs their values itself), "nets" (runs nets that are arguments)
    effects: ClassVar[frozenset[str] | set[str]] = frozenset()
    #: runs on the host through NumPy whatever the backend is (strings, opaque blobs)
    host: ClassVar[bool] = False
    #: tensors of strings are taken too, and then the reference kernel runs on NumPy arrays of ``bytes`` objects
    strings: ClassVar[bool] = False
    #: made by gradient rules, not by people
    internal: ClassVar[bool] = False
    #: an example for the catalogue and its test: (feeds, what OperatorDef, expected outputs), for later
    example: ClassVar[Any] = None

    # derived
    argument_table: ClassVar[Mapping[str, Arg]] = {}

    def __init_subclass__(cls, abstract: bool = False, replace: bool = False, **kwargs: Any) -> None:
        """Registers the class, unless it is ``abstract``. ``replace``: it may stand over a built-in operator."""
        super().__init_subclass__(**kwargs)
        for name in ("kernel", "gradient", "tangent", "onnx", "shape", "shape_only", "outputs_alike",
                     "num_inputs_outputs", "differentiable_inputs"):
            value = cls.__dict__.get(name)
            if value is not None and not isinstance(value, staticmethod):
                setattr(cls, name, staticmethod(value))
        for name in ("inputs", "outputs", "arguments"):
            if name in cls.__dict__:
                setattr(cls, name, tuple(cls.__dict__[name]))
        cls.inplace, cls.inplace_required = frozenset(cls.inplace), frozenset(cls.inplace_required)
        if abstract:
            return
        if "type" not in cls.__dict__:
            cls.type = cls.__name__
        if cls.num_inputs is None or cls._defined("inputs") < cls._defined("num_inputs"):
            cls.num_inputs = _arity(cls.inputs)
        if cls.num_outputs is None or cls._defined("outputs") < cls._defined("num_outputs"):
            cls.num_outputs = _arity(cls.outputs)
        if cls.inplace_keeps_shape is None:
            cls.inplace_keeps_shape = bool(getattr(cls.shape, "keeps_shape", False))
        cls.argument_table = {a.name: a for a in cls.arguments}
        registry.register(cls, replace)

    @classmethod
    def _defined(cls, name: str) -> int:
        """How far up the bases an attribute is defined: a count that was stated counts for all who share its slots."""
        return next(k for k, base in enumerate(cls.__mro__) if name in base.__dict__)

    @staticmethod
    def slot(slots: Any, k: int) -> Any:
        """The declared input or output that position k belongs to, repeating groups counted."""
        if k < len(slots):
            return slots[k]
        group = [s for s in slots if s.variadic]
        return group[(k - (len(slots) - len(group))) % len(group)] if group else None

    @classmethod
    def may_be_inplace(cls, i: int, o: int) -> bool:
        return cls.inplace is ANY_PAIR or (-1, -1) in cls.inplace or (i, o) in cls.inplace or \
            (i, o) in cls.inplace_required
