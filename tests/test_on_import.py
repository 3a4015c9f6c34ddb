"""Modules that are imported along with another package, when and if that is imported."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import pytest

from netgrad.on_import import import_along


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    (tmp_path / "along.py").write_text("import leading\nseen = leading.value\n")
    yield tmp_path
    for name in ("leading", "along"):
        sys.modules.pop(name, None)


def test_it_comes_after_the_package_and_only_then(folder: Path) -> None:
    (folder / "leading.py").write_text("value = 1\n")
    before = list(sys.meta_path)
    import_along("leading", "along")
    assert "leading" not in sys.modules
    assert importlib.util.find_spec("leading") is not None, "to look whether it is there imports nothing"
    assert "along" not in sys.modules
    leading = importlib.import_module("leading")
    assert sys.modules["along"].seen == 1
    assert leading.__spec__.loader is leading.__loader__
    assert type(leading.__loader__).__name__ == "SourceFileLoader"
    assert sys.meta_path == before


def test_at_once_where_the_package_is_imported_already(folder: Path) -> None:
    (folder / "leading.py").write_text("value = 2\n")
    importlib.import_module("leading")
    import_along("leading", "along")
    assert sys.modules["along"].seen == 2


def test_a_package_that_fails_or_is_missing_is_waited_for(folder: Path) -> None:
    import_along("leading", "along")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("leading")
    (folder / "leading.py").write_text("raise RuntimeError('not now')\n")
    importlib.invalidate_caches()
    with pytest.raises(RuntimeError, match="not now"):
        importlib.import_module("leading")
    assert "along" not in sys.modules
    (folder / "leading.py").write_text("value = 'later, and longer'\n")
    importlib.import_module("leading")
    assert sys.modules["along"].seen == "later, and longer"
