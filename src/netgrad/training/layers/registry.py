"""Layers by name: what ``model.FC(...)`` looks up. Layers of one's own join with `register_layer`."""

from __future__ import annotations

from typing import Any

_LAYER_REGISTRY: dict[str, Any] = {}


def register_layer(name: str, layer: Any) -> None:
    """Makes a layer class available as ``model.<name>(...)``.

    Raises:
        AssertionError: the name is taken.
    """
    if name in _LAYER_REGISTRY:
        raise AssertionError(f"a layer {name!r} is registered already, {_LAYER_REGISTRY[name].__qualname__}")
    _LAYER_REGISTRY[name] = layer


def layer_exists(name: str) -> bool:
    return name in _LAYER_REGISTRY


def get_layer_class(name: str) -> Any:
    """The class of that name.

    Raises:
        KeyError: there is none.
    """
    try:
        return _LAYER_REGISTRY[name]
    except KeyError:
        from difflib import get_close_matches

        close = get_close_matches(name, _LAYER_REGISTRY, 3)
        hint = f"; did you mean {' or '.join(close)}?" if close else "; register_layer(name, cls) adds one"
        raise KeyError(f"there is no layer {name!r}{hint}") from None


def create_layer(layer_name: str, *args: Any, **kwargs: Any) -> Any:
    """A new layer: ``create_layer("FC", model, record, 10)``."""
    return get_layer_class(layer_name)(*args, **kwargs)
