"""Functions on nets, steps, tasks and jobs, chosen by what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Visitor:
    """Calling a subclass's instance with an object calls the function that is registered for the object's class.

    Jobs (of checkpoints) are known by their groups ``init_group`` and ``epoch_group``, and registered as `Job`.
    """

    visitors: ClassVar[dict[type, Callable[..., Any]]]

    def __init_subclass__(cls) -> None:
        cls.visitors = dict(getattr(cls, "visitors", {}))

    @classmethod
    def register(cls, Type: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates ``function(visitor, object, ...)``; raises AssertionError where there is one for that class."""
        if Type in cls.visitors:
            raise AssertionError(f"{cls.__name__} has a function for {Type.__name__} already")

        def _register(function: Callable[..., Any]) -> Callable[..., Any]:
            cls.visitors[Type] = function
            return function

        return _register

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Raises TypeError for an object of a class that nothing is registered for; None is passed over."""
        if obj is None:
            return None
        kind = next((kind for kind in type(obj).__mro__ if kind in self.visitors), None)
        if kind is None and hasattr(obj, "init_group") and hasattr(obj, "epoch_group") and Job in self.visitors:
            kind = Job
        if kind is None:
            known = ", ".join(k.__name__ for k in self.visitors)
            raise TypeError(f"{type(self).__name__}: unsupported object of {type(obj)}; it takes {known}")
        return self.visitors[kind](self, obj, *args, **kwargs)


class Job:
    """Stands for the jobs of checkpoints, whatever their class."""
