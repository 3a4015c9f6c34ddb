"""The catalogue in `docs/operators` says what the declarations say."""

from __future__ import annotations

import inspect
import pydoc
from pathlib import Path

import netgrad
from netgrad.graph import registry
from netgrad.ops import catalogue

FALLBACK = Path(__file__).parent / "data" / "fallback.txt"


def test_pages_are_up_to_date() -> None:
    pages = catalogue.pages()
    stale = [name for name, text in pages.items()
             if not (catalogue.FOLDER / name).exists() or (catalogue.FOLDER / name).read_text() != text]
    surplus = {path.name for path in catalogue.FOLDER.glob("*.md")} - set(pages)
    assert not stale and not surplus, f"run `python -m netgrad.ops.catalogue`: {stale} {sorted(surplus)}"


def test_what_runs_through_numpy_under_torch_is_known() -> None:
    """Strings, opaque blobs, and bytes that hold several numbers; the list may only shrink."""
    assert catalogue.fallback() == FALLBACK.read_text().split()


def test_help_on_an_operator_is_its_sheet() -> None:
    net = netgrad.Net("n")
    method = net.LayerNorm
    assert method.__doc__ == registry.find("LayerNorm").__doc__
    text = inspect.getdoc(method)
    assert text == "\n".join(catalogue.sheet(registry.find("LayerNorm"))).strip("\n")
    for part in ("inputs", "epsilon: a number", "LayerNormGradient", "example"):
        assert part in pydoc.render_doc(method)
    net.LayerNorm("x", ["y", "mean", "std"])
    assert len(net.Proto().op) == 1
