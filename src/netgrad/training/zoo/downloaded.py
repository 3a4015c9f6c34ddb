"""Models that were downloaded from Caffe2's zoo: read from a folder. The server they came from is gone."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, NoReturn

#: where the models were
DOWNLOAD_BASE_URL = "https://s3.amazonaws.com/download.caffe2.ai/models/"
DOWNLOAD_COLUMNS = 70

#: the files of a model
FILES = ("predict_net.pb", "init_net.pb", "value_info.json")


class ModelNotHereError(OSError):
    """A model is not in the folder of models, and netgrad downloads none."""


class ModelDownloader:
    """Reads models from the folder of models.

    That is the folder named by an environment variable, or ``models`` in that named by ``CAFFE2_HOME``, or
    ``~/.caffe2/models``. Each model has a folder of its name, with `FILES`.
    """

    def __init__(self, model_env_name: str = "CAFFE2_MODELS") -> None:
        self.model_env_name = model_env_name

    def _model_dir(self, model: str) -> str:
        home = os.path.expanduser(os.environ.get("CAFFE2_HOME", "~/.caffe2"))
        return os.path.join(os.environ.get(self.model_env_name, os.path.join(home, "models")), model)

    def get_c2_model(self, model_name: str) -> tuple[Any, Any, dict[str, Any]]:
        """The init net, the predict net, and what is known of the inputs: name -> (type, shape).

        Raises:
            ModelNotHereError: the folder or a file of it is not there.
            ValueError: the name would lead out of the folder.
        """
        init_net, predict_net, value_info, _ = self.get_c2_model_dbg(model_name)
        return init_net, predict_net, value_info

    def get_c2_model_dbg(self, model_name: str) -> tuple[Any, Any, dict[str, Any], str]:
        """The same, and where it was found, in words."""
        from netgrad.proto.files import read_net

        if not validModelName(model_name):
            raise ValueError(f"{model_name!r} is no name of a model: letters, digits, '-', '_' and '/' make one")
        folder = Path(self._model_dir(model_name))
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            _not_here(model_name, folder, missing)
        predict_net, init_net = (read_net(folder / name) for name in ("predict_net.pb", "init_net.pb"))
        predict_net.name, init_net.name = model_name, f"{model_name}_init"
        value_info = json.loads((folder / "value_info.json").read_text(encoding="utf-8"))
        return init_net, predict_net, value_info, f"get_c2_model debug:\nread from {folder}\n"


def _not_here(model: str, folder: Path, missing: list[str]) -> NoReturn:
    raise ModelNotHereError(
        f"the model {model!r} lacks {', '.join(missing)} in {folder}. Caffe2's server of models is gone, so that "
        "nothing can be downloaded: put the files there, from a copy of the zoo, or set CAFFE2_MODELS to where they are"
    )


def downloadFromURLToFile(url: str, filename: str, show_progress: bool = True) -> NoReturn:
    """Caffe2 fetched a file with this; netgrad opens no connection.

    Raises:
        ModelNotHereError: always.
    """
    raise ModelNotHereError(
        f"netgrad downloads nothing, and Caffe2's server of models is gone; get {url} by other means and put it into "
        f"{filename}")


def downloadModel(model: str, args: Any = None) -> NoReturn:
    """Caffe2 fetched a model into the current folder with this.

    Raises:
        ModelNotHereError: always.
    """
    _not_here(model, Path(model), list(FILES[:2]))


def getURLFromName(name: str, filename: str) -> str:
    """Where a file of a model was."""
    return f"{DOWNLOAD_BASE_URL}{name}/{filename}"


def validModelName(name: str) -> bool:
    return name != "__init__" and re.fullmatch(r"[/0-9a-zA-Z_-]+", name) is not None


def deleteDirectory(top_dir: str) -> None:
    shutil.rmtree(top_dir)


def progressBar(percentage: float) -> None:
    """Draws a bar over the current line."""
    full = int(DOWNLOAD_COLUMNS * percentage / 100)
    sys.stdout.write(f"\r[{'#' * full}{' ' * (DOWNLOAD_COLUMNS - full)}] {percentage}%")
    sys.stdout.flush()
