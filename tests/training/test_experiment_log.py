"""Logs of experiments."""

from __future__ import annotations

import argparse
import csv

import pytest

from caffe2.python import experiment_util


class Board(experiment_util.ExternalLogger):
    def __init__(self, broken=False):
        self.arguments, self.lines, self.broken = None, [], broken

    def set_runtime_args(self, runtime_args):
        self.arguments = runtime_args

    def log(self, log_dict):
        if self.broken:
            raise ConnectionError("no board there")
        self.lines.append(log_dict)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("arguments", [{"rate": 0.5}, argparse.Namespace(rate=0.5)])
def test_a_log_has_the_arguments_a_head_and_a_line_per_call(folder, arguments):
    board = Board()
    log = experiment_util.ModelTrainerLog("digits", arguments, [board])
    log.log(100, 10, {"loss": 2.0, "accuracy": 0.5})
    log.log(250, 25, {"loss": 1.0, "accuracy": 0.75})
    first, *rest = (folder / log.filename).read_text().splitlines()
    assert log.filename.startswith("digits_")
    assert first == f"# {arguments}"
    one, two = csv.DictReader(rest)
    assert list(one) == ["time_spent", "cumulative_time_spent", "input_count", "cumulative_input_count",
                         "cumulative_batch_count", "inputs_per_sec", "accuracy", "loss"]
    assert (one["input_count"], two["input_count"], two["cumulative_input_count"]) == ("100", "150", "250")
    assert (two["cumulative_batch_count"], two["loss"], two["accuracy"]) == ("25", "1.0", "0.75")
    assert float(two["cumulative_time_spent"]) >= float(one["cumulative_time_spent"]) >= 0
    assert board.arguments["rate"] == 0.5
    assert board.arguments["experiment_id"] == log.experiment_id
    assert board.arguments["hostname"]
    assert [line["loss"] for line in board.lines] == [2.0, 1.0]
    assert arguments in ({"rate": 0.5}, argparse.Namespace(rate=0.5))  # the caller's are left alone


def test_a_board_that_is_not_there_stops_nothing(folder, caplog):
    board = Board()
    log = experiment_util.ModelTrainerLog("digits", {}, [Board(broken=True), board])
    log.log(1, 1, {"loss": 1.0})
    assert "no board there" in caplog.text
    assert len(board.lines) == 1


def test_other_columns_are_refused_and_nothing_is_written(folder):
    log = experiment_util.ModelTrainerLog("digits", {})
    log.log(1, 1, {"loss": 1.0})
    before = (folder / log.filename).read_text()
    with pytest.raises(ValueError, match=r"accuracy"):
        log.log(2, 2, {"accuracy": 1.0})
    assert (folder / log.filename).read_text() == before


def test_an_external_logger_defines_both_methods():
    with pytest.raises(TypeError, match=r"set_runtime_args"):
        experiment_util.ExternalLogger()
