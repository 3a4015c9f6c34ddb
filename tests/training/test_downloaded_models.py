"""Models of Caffe2's zoo are read from a folder; nothing is downloaded."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.models import download


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFE2_MODELS", str(tmp_path))
    folder = tmp_path / "tiny"
    folder.mkdir()
    init, predict = core.Net("i"), core.Net("p")
    init.GivenTensorFill([], "w", shape=[2], values=[3.0, 4.0])
    predict.AddExternalInput("x")
    predict.Mul(["x", "w"], "y")
    (folder / "init_net.pb").write_bytes(init.Proto().SerializeToString())
    (folder / "predict_net.pb").write_bytes(predict.Proto().SerializeToString())
    (folder / "value_info.json").write_text(json.dumps({"x": [caffe2_pb2.TensorProto.FLOAT, [2]]}))
    return tmp_path


def test_a_model_in_the_folder_is_read_and_runs(models):
    init, predict, info = download.ModelDownloader().get_c2_model("tiny")
    assert (init.name, predict.name) == ("tiny_init", "tiny")
    assert info == {"x": [1, [2]]}
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", np.array([1.0, 2.0], np.float32))
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(predict)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [3, 8])


def test_another_variable_may_name_the_folder(models, monkeypatch):
    monkeypatch.delenv("CAFFE2_MODELS")
    monkeypatch.setenv("MY_MODELS", str(models))
    *_, words = download.ModelDownloader("MY_MODELS").get_c2_model_dbg("tiny")
    assert str(models / "tiny") in words
    monkeypatch.setenv("CAFFE2_HOME", str(models.parent / "elsewhere"))
    with pytest.raises(OSError, match=r"elsewhere"):
        download.ModelDownloader().get_c2_model("tiny")


def test_what_is_not_there_is_named_with_the_cure(models):
    with pytest.raises(OSError, match=r"'resnet50'.*predict_net\.pb.*server.*gone.*CAFFE2_MODELS"):
        download.ModelDownloader().get_c2_model("resnet50")
    (models / "tiny" / "value_info.json").unlink()
    with pytest.raises(OSError, match=r"lacks value_info\.json in"):
        download.ModelDownloader().get_c2_model("tiny")
    for name in ("../tiny", "__init__", "a b"):
        with pytest.raises(ValueError, match=r"no name of a model"):
            download.ModelDownloader().get_c2_model(name)


def test_a_broken_file_is_one_clear_error(models):
    (models / "tiny" / "init_net.pb").write_bytes(b"\xff\xff not a net")
    with pytest.raises(ValueError, match=r"init_net\.pb"):
        download.ModelDownloader().get_c2_model("tiny")


def test_downloading_says_that_it_does_not(tmp_path):
    target = tmp_path / "init_net.pb"
    url = download.getURLFromName("resnet50", "init_net.pb")
    assert url.endswith("/resnet50/init_net.pb")
    with pytest.raises(OSError, match=r"downloads nothing"):
        download.downloadFromURLToFile(url, str(target))
    with pytest.raises(OSError, match=r"resnet50"):
        download.downloadModel("resnet50", None)
    assert not target.exists()


def test_a_folder_and_a_bar(tmp_path, capsys):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    download.deleteDirectory(str(tmp_path / "a"))
    assert not (tmp_path / "a").exists()
    download.progressBar(50)
    assert "#" * 35 + " " * 35 in capsys.readouterr().out
