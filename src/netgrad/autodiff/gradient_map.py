"""What AddGradientOperators returns: blob -> gradient, with references made when they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from netgrad.autodiff.backward import BackwardPass
from netgrad.autodiff.errors import NoGradientError
from netgrad.graph.blob import BlobReference
from netgrad.graph.operator import GradientSlice


class GradientMap(MutableMapping[Any, Any]):
    """Blob -> its gradient, as `BlobReference` values or a `GradientSlice` of them; strings serve as keys.

    References are made when they are looked at. Two blobs may have the same gradient blob (a Sum passes its gradient
    on); `shared` lists them. `start` is the position in the net of the pass's first operator, where there is a net.
    """

    __slots__ = ("_refs", "_source", "explain", "start")

    def __init__(self, names: dict[str, Any] | BackwardPass, explain: Callable[[str], str] | None = None,
                 start: int | None = None) -> None:
        self._source: Any = names
        self.start = start
        self._refs: dict[str, Any] = {}
        self.explain = explain

    @property
    def _names(self) -> dict[str, Any]:
        if isinstance(self._source, BackwardPass):
            self._source = dict(self._source.gradients)
        return self._source  # type: ignore[no-any-return]

    def __getitem__(self, blob: Any) -> Any:
        key = str(blob)
        if key in self._refs:
            return self._refs[key]
        try:
            gradient = self._names[key]
        except KeyError:
            reason = f": {self.explain(key)}" if self.explain is not None else ""
            raise NoGradientError(f"{key!r} has no gradient{reason}") from None
        if isinstance(gradient, str):
            gradient = BlobReference(gradient)
        elif type(gradient) is tuple:
            gradient = GradientSlice(BlobReference(gradient[0]), BlobReference(gradient[1]))
        self._refs[key] = gradient
        return gradient

    def get(self, blob: Any, default: Any = None) -> Any:
        return self[blob] if blob in self else default  # noqa: SIM401 (this is `get`)

    def __contains__(self, blob: object) -> bool:
        return str(blob) in self._names

    def __setitem__(self, blob: Any, gradient: Any) -> None:
        self._names[str(blob)] = gradient
        self._refs[str(blob)] = gradient

    def __delitem__(self, blob: Any) -> None:
        del self._names[str(blob)]
        self._refs.pop(str(blob), None)

    def __iter__(self) -> Iterator[BlobReference]:
        return map(BlobReference, list(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr({str(k): self[k] for k in self})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return {str(k): self[k] for k in self} == {str(k): v for k, v in other.items()}

    __hash__ = None  # type: ignore[assignment]

    @property
    def shared(self) -> dict[str, list[str]]:
        """Gradient blob -> the blobs that share it, where there is more than one."""
        users: dict[str, list[str]] = {}
        for blob in self:
            gradient = self[blob]
            for part in gradient if isinstance(gradient, GradientSlice) else (gradient,):
                users.setdefault(str(part), []).append(str(blob))
        return {gradient: blobs for gradient, blobs in users.items() if len(blobs) > 1}
