"""The log of an experiment: a file with a line per epoch, and whoever else wants to know."""

from __future__ import annotations

import datetime
import logging
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

log = logging.getLogger("experiment_logger")


class ExternalLogger(ABC):
    """Receives what a `ModelTrainerLog` writes, to put it elsewhere: a database, a board."""

    @abstractmethod
    def set_runtime_args(self, runtime_args: dict[str, Any]) -> None:
        """Takes the arguments of the experiment, with ``experiment_id`` and ``hostname`` beside them."""

    @abstractmethod
    def log(self, log_dict: dict[str, Any]) -> None:
        """Takes the values of one line."""


class ModelTrainerLog:
    """Writes ``<experiment>_<date>_<time>.log`` in the current folder, as comma-separated values.

    The first line is a comment with the arguments; the second names the columns: seconds since the line before and in
    all, inputs since then and in all, batches in all, inputs per second, and the values of one's own by name.

    Attributes:
        experiment_id: name, date and time.
        filename: of the log.
    """

    def __init__(
        self, expname: str, runtime_args: Any, external_loggers: Iterable[ExternalLogger] | None = None
    ) -> None:
        """Begins a log.

        Args:
            runtime_args: the arguments of the experiment: a dictionary, or what argparse makes.
            external_loggers: receive everything as well.
        """
        self.experiment_id = f"{expname}_{datetime.datetime.now():%Y%m%d_%H%M%S}"
        self.filename = f"{self.experiment_id}.log"
        self.headers: list[str] | None = None
        self.start_time = self.last_time = time.time()
        self.last_input_count = 0
        self.external_loggers = list(external_loggers or ())
        self.logstr(f"# {runtime_args}")
        if self.external_loggers:
            said = dict(runtime_args) if isinstance(runtime_args, Mapping) else dict(vars(runtime_args))
            said |= {"experiment_id": self.experiment_id, "hostname": socket.gethostname()}
            for logger in self.external_loggers:
                logger.set_runtime_args(dict(said))

    def logstr(self, str: str) -> None:
        """Appends a line."""
        with open(self.filename, "a", encoding="utf-8") as file:
            file.write(str + "\n")
        log.info(str)

    def log(self, input_count: int, batch_count: int, additional_values: Mapping[str, Any]) -> None:
        """Appends a line of values.

        Args:
            input_count: inputs since the experiment began.
            batch_count: batches since then.
            additional_values: further columns, the same for all lines.

        Raises:
            ValueError: other columns than in the lines before.
        """
        now = time.time()
        seconds, inputs = now - self.last_time, input_count - self.last_input_count
        values: dict[str, Any] = {
            "time_spent": seconds,
            "cumulative_time_spent": now - self.start_time,
            "input_count": inputs,
            "cumulative_input_count": input_count,
            "cumulative_batch_count": batch_count,
            "inputs_per_sec": inputs / seconds if seconds > 0 else 0.0,
            **{name: additional_values[name] for name in sorted(additional_values)},
        }
        if self.headers is None:
            self.headers = list(values)
            self.logstr(",".join(self.headers))
        elif self.headers != list(values):
            raise ValueError(
                f"{self.filename} has the columns {', '.join(self.headers)}; this line has {', '.join(values)}")
        self.last_time, self.last_input_count = now, input_count
        self.logstr(",".join(str(value) for value in values.values()))
        for logger in self.external_loggers:
            try:
                logger.log(dict(values))
            except Exception as error:  # an experiment does not stop because a board is not there
                log.warning("%s failed: %s", type(logger).__name__, error)
