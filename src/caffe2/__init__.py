"""Caffe2's import path, on netgrad.

Every module here is a facade: Caffe2's names, for objects that live in `netgrad`.
"""

from pathlib import Path as _Path

for _folder in __path__:
    if any(file.suffix in {".so", ".pyd"} for file in _Path(_folder, "python").glob("caffe2_pybind11_state*")):
        raise ImportError(
            f"caffe2: {_folder} mixes netgrad's package with the compiled Caffe2 of an old torch wheel; uninstall both "
            "and install netgrad again, with torch>=2.5 or none"
        )
