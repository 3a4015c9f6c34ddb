"""Optimizers, regularizers and normalizers for the parameters that are created inside a ``with`` block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from netgrad.graph.context import DefaultManaged

DEFAULT_MODIFIER = "DEFAULT"
DEFAULT_OPTIM = DEFAULT_MODIFIER


class ModifierContext:
    """Modifiers by name, in layers; later layers win."""

    def __init__(self) -> None:
        self._modifiers: dict[str, Any] = {}
        self._modifiers_list: list[Mapping[str, Any]] = []

    def _has_modifier(self, name: str) -> bool:
        return name in self._modifiers

    def _get_modifier(self, name: str) -> Any:
        return self._modifiers.get(name)

    def push_modifiers(self, modifiers: Mapping[str, Any]) -> None:
        self._modifiers_list.append(modifiers)
        self._modifiers.update(modifiers)

    def pop_modifiers(self) -> None:
        if not self._modifiers_list:
            raise AssertionError("there are no modifiers to take away")
        self._modifiers_list.pop()
        self._modifiers = {name: modifier for layer in self._modifiers_list for name, modifier in layer.items()}


class UseModifierBase:
    """A ``with`` block in which modifiers hold: one for everything, or a dictionary from tag to modifier."""

    _context: ClassVar[type[DefaultManaged]]

    def __init__(self, modifier_or_dict: Any) -> None:
        self._modifiers = (
            modifier_or_dict if isinstance(modifier_or_dict, dict) else {DEFAULT_MODIFIER: modifier_or_dict}
        )

    def _context_class(self) -> Any:
        return self._context

    def __enter__(self) -> Self:
        self._context_class().current().push_modifiers(self._modifiers)
        return self

    def __exit__(self, *error: object) -> None:
        self._context_class().current().pop_modifiers()


class OptimizerContext(ModifierContext, DefaultManaged):
    """The optimizers that new parameters take, by tag."""

    def has_optimizer(self, name: str) -> bool:
        return self._has_modifier(name)

    def get_optimizer(self, name: str) -> Any:
        if not self.has_optimizer(name):
            raise AssertionError(f"no optimizer is given for {name!r}; known are {sorted(self._modifiers)}")
        return self._get_modifier(name)


class UseOptimizer(UseModifierBase):
    """``with UseOptimizer(optimizer):`` or ``with UseOptimizer({'WEIGHT': a, 'BIAS': b, 'DEFAULT': c}):`` - parameters
    created inside are optimized by it, whatever optimizer the model is built with."""

    _context = OptimizerContext


class RegularizerContext(ModifierContext, DefaultManaged):
    """The regularizers that new parameters take, by name."""

    def has_regularizer(self, name: str) -> bool:
        return self._has_modifier(name)

    def get_regularizer(self, name: str) -> Any:
        if not self.has_regularizer(name):
            raise AssertionError(f"no regularizer is given for {name!r}; known are {sorted(self._modifiers)}")
        return self._get_modifier(name)


class UseRegularizer(UseModifierBase):
    """Like `UseOptimizer`, for regularizers."""

    _context = RegularizerContext


class NormalizerContext(ModifierContext, DefaultManaged):
    """The normalizers that new layers take, by name."""

    def has_normalizer(self, name: str) -> bool:
        return self._has_modifier(name)

    def get_normalizer(self, name: str) -> Any:
        if not self.has_normalizer(name):
            raise AssertionError(f"no normalizer is given for {name!r}; known are {sorted(self._modifiers)}")
        return self._get_modifier(name)


class UseNormalizer(UseModifierBase):
    """Like `UseOptimizer`, for normalizers."""

    _context = NormalizerContext
