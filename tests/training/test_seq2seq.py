"""Sequence to sequence: batches, training, and that the search's scores are those of the trained net."""

from __future__ import annotations

import io

import numpy as np
import pytest

from caffe2.python import workspace
from caffe2.python.models.seq2seq import seq2seq_util, train, translate
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

WORDS = {i: str(i) for i in range(12)}


def params_of(attention="regular", encoder=(8,), decoder=(8,), both_ways=False, softmax=None, keep=None):
    layers = [{"num_units": units, **({} if keep is None else {"dropout_keep_prob": keep})} for units in encoder]
    return {"attention": attention, "decoder_layer_configs": [{"num_units": units} for units in decoder],
            "encoder_type": {"encoder_layer_configs": layers, "use_bidirectional_encoder": both_ways},
            "encoder_embedding_size": 5, "decoder_embedding_size": 6, "decoder_softmax_size": softmax}


def model_of(params, batch_size=2, rate=0.1):
    workspace.ResetWorkspace()
    model = train.Seq2SeqModelCaffe2(
        {**params, "batch_size": batch_size, "max_gradient_norm": 1.0, "optimizer_params": {"learning_rate": rate}},
        len(WORDS), len(WORDS), num_gpus=0)
    model.initialize_from_scratch()
    return model


def decoder_of(params, files, beam_size=3, word_reward=0.0, unk_reward=0.0):
    return translate.Seq2SeqModelCaffe2EnsembleDecoder({
        "ensemble_models": [{"source_vocab": WORDS, "target_vocab": WORDS, "model_params": params, "model_file": file}
                            for file in files],
        "decoding_params": {"beam_size": beam_size, "word_reward": word_reward, "unk_reward": unk_reward}})


@pytest.mark.parametrize("params", [
    params_of(), params_of("none", (8, 10, 9), (8, 16), softmax=5), params_of("regular", (4, 8), (8, 8), True),
    params_of("none", (8,), (8, 8, 8), True),
], ids=["attention", "none", "both ways", "few layers"])
def test_the_score_of_a_translation_is_its_loss(params, tmp_path):
    model = model_of(params)
    decoder = decoder_of(params, [model.save(str(tmp_path / "checkpoint"), 0)])
    decoder.load_models()
    for sentence in ([3, 7, 11, 4], [5]):
        words, attention, score = decoder.decode(sentence, 6)
        assert words == decoder.decode(sentence, 6)[0] and 0 < len(words) <= 6
        assert len(attention) == len(words) and all(len(row) == len(sentence) for row in attention)
        if params["attention"] != "none":
            np.testing.assert_allclose(np.sum(attention, axis=1), 1, rtol=1e-5)
        ended = words[-1] == seq2seq_util.EOS_ID
        arrays = train.prepare_batch([(sentence, words[:-1])])._asdict()
        arrays["targets"][-1] = words[-1]
        for name, array in arrays.items():
            workspace.FeedBlob(name, array)
        workspace.RunNet(model.forward_net)
        assert workspace.FetchBlob("total_loss_scalar") == pytest.approx(score, rel=1e-4), ended


def test_an_ensemble_of_one_model_twice_is_the_model_and_rewards_count(tmp_path):
    params = params_of()
    file = model_of(params).save(str(tmp_path / "checkpoint"), 0)
    sentence = [3, 4, 9]
    found = []
    for files, reward in (([file], 0.0), ([file, file], 0.0), ([file], 100.0)):
        workspace.ResetWorkspace()
        decoder = decoder_of(params, files, word_reward=reward, unk_reward=-500.0)
        decoder.load_models()
        found.append(decoder.decode(sentence, 5))
    (words, _, score), (words_of_two, _, score_of_two), (longest, _, rewarded) = found
    assert words == words_of_two and score == pytest.approx(score_of_two, rel=1e-5)
    assert len(longest) == 5 and -rewarded > 480 and not set(longest) & set(range(4))


@pytest.mark.parametrize("attention", ["none", "regular", "dot"])
def test_training_learns_and_evaluation_changes_nothing(attention):
    np.random.seed(1)
    model = model_of(params_of(attention, (16,), (16,), keep=0.9), batch_size=4, rate=1.0)
    pairs = [([3, 4], [5, 6]), ([4, 3], [6, 5]), ([7, 8, 9], [9]), ([10], [11, 3])]
    before = model.step(pairs, forward_only=True)
    assert model.step(pairs, forward_only=True) == before  # nothing is dropped out
    for _ in range(60):
        model.step(pairs, forward_only=False)
    assert model.get_current_step() == 60
    assert model.step(pairs, forward_only=True) < before / 3


def test_gradients_are_clipped_to_their_common_norm():
    model = model_of(params_of("none"), rate=1.0)
    names = [str(param) for param in model.model.GetParams() if "embeddings" not in str(param)]
    before = {name: workspace.FetchBlob(name) for name in names}
    model.model_params["max_gradient_norm"] = 1.0
    model.step([([3] * 9, [4] * 9)] * 2, forward_only=False)
    moved = np.sqrt(sum(((workspace.FetchBlob(name) - before[name]) ** 2).sum() for name in names))
    norm = workspace.FetchBlob("norm_clipped_grad_update/global_norm")
    assert moved == pytest.approx(min(1.0, float(norm)), rel=1e-3)


def test_a_batch_is_padded_and_weighed():
    batch = train.prepare_batch([([4, 5, 6], [7]), ([8], [9, 10]), ([], [])])
    assert batch.encoder_inputs.T.tolist() == [[6, 5, 4], [8, 0, 0], [0, 0, 0]]
    assert batch.encoder_lengths.tolist() == [3, 1, 0] and batch.decoder_lengths.tolist() == [2, 3, 1]
    assert batch.decoder_inputs.T.tolist() == [[1, 7, 0], [1, 9, 10], [1, 0, 0]]
    assert batch.targets.T.tolist() == [[7, 2, 0], [9, 10, 2], [2, 0, 0]]
    assert batch.target_weights.T.tolist() == [[1, 1, 0], [1, 1, 1], [0, 0, 0]]
    assert {array.dtype.name for array in batch} == {"int32", "float32"}


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one pair"):
        train.prepare_batch([])
    with pytest.raises(NotImplementedError, match="give num_gpus=0"):
        train.Seq2SeqModelCaffe2({**params_of(), "batch_size": 1}, 5, 5, num_gpus=1)
    with pytest.raises(ValueError, match="no attention 'hard'"):
        model_of(params_of("hard"))
    with pytest.raises(ValueError, match="none or regular"):
        decoder_of(params_of("dot"), ["file"])
    with pytest.raises(ValueError, match="at least one model"):
        decoder_of(params_of(), [])
    with pytest.raises(TypeError, match="an int, float or str"):
        Seq2SeqModelHelper().AddParam("x", init_value=[1])
    with pytest.raises(AssertionError, match="neither init nor init_value"):
        Seq2SeqModelHelper().AddParam("x")


def test_parameters_that_are_not_trained():
    model = Seq2SeqModelHelper(ws_nbytes_limit=7)
    fixed = model.AddParam("fixed", init=("ConstantFill", {"shape": [2], "value": 3.0}), trainable=False)
    trained = model.AddParam("trained", init_value=1.5)
    assert model.GetParams() == [trained] and model.GetNonTrainableParams() == [fixed]
    assert model.GetAllParams() == [trained, fixed] and model.arg_scope["ws_nbytes_limit"] == 7
    assert [op.output[0] for op in model.param_init_net.Proto().op] == ["fixed", "trained"]
    plain = Seq2SeqModelHelper(init_params=False)
    assert plain.AddParam("given") in plain.net.external_inputs


def test_the_commands(tmp_path, monkeypatch, capsys):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_text("a b c\nc b\nunknown a\n\nb b b b\n" * 4)
    target.write_text("x y\nz\ny x\nx\nz z\n" * 4)
    sizes = ["--unk-threshold", "4", "--use-attention", "--use-bidirectional-encoder", "--encoder-cell-num-units", "8",
             "--decoder-cell-num-units", "8", "--encoder-embedding-size", "4", "--decoder-embedding-size", "4",
             "--decoder-num-layers", "1"]
    texts = ["--source-corpus", str(source), "--target-corpus", str(target)]
    train.main([*texts, "--source-corpus-eval", str(source), "--target-corpus-eval", str(target), "--epochs", "2",
                "--batch-size", "3", "--max-length", "3", "--checkpoint", str(tmp_path / "model"), *sizes])
    assert (tmp_path / "checkpoint").read_text().startswith(f'model_checkpoint_path: "{tmp_path / "model"}-1"')
    monkeypatch.setattr("sys.stdin", io.StringIO("a b\n\nc never\n"))
    capsys.readouterr()
    translate.main([*texts, "--checkpoint", f"{tmp_path / 'model'}-1", "--beam-size", "2", *sizes])
    lines = capsys.readouterr().out.split("\n")
    assert len(lines) == 4 and lines[1] == "" and lines[0]
    assert set(" ".join(lines).split()) <= {"x", "y", "z", "<EOS>", "<GO>", "<PAD>", "<UNK>"}
