"""Beam search finds what a search written down in Python finds, over words that follow each other by a table."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.python import core
from caffe2.python.model_helper import ModelHelper
from caffe2.python.models.seq2seq.beam_search import BeamSearchForwardOnly
from netgrad.runtime.workspace import Workspace


def expected(log_probs, beam, steps, start, end=None, penalty=0.0, rewards=None, words=None):
    """Scores, words and parents of each step."""
    scores, tokens, parents = [np.zeros(beam, np.float32)], [np.full(beam, start)], [np.zeros(beam, int)]
    names = np.arange(log_probs.shape[1]) if words is None else words
    for t in range(steps):
        rows = log_probs[tokens[-1]] + np.float32(penalty * (tokens[-1] == end))[:, None] * (t > 0)
        columns = np.argsort(-rows, axis=1, kind="stable")[:, :beam]
        total = scores[-1][:, None] + np.take_along_axis(rows, columns, 1)
        if rewards is not None:
            total = total + rewards[names[columns]]
        flat = total[0] if t == 0 else total.reshape(-1)
        best = np.argsort(-flat, kind="stable")[:beam]
        scores.append(flat[best])
        parents.append(best // beam)
        tokens.append(names[columns].reshape(-1)[best])
    return np.array(scores), np.array(tokens), np.array(parents)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("scope", ["", "outer"])
@pytest.mark.parametrize("case", ["plain", "penalty", "rewards", "words", "start", "no steps"])
def test_as_written_down(case, scope, backend):
    rng = np.random.default_rng(3)
    beam, vocabulary, steps = 3, 7, 0 if case == "no steps" else 5
    columns = 4 if case == "words" else vocabulary
    table = np.log(rng.dirichlet(np.ones(columns), vocabulary)).astype(np.float32)
    rewards = rng.standard_normal(vocabulary).astype(np.float32)
    words = np.array([6, 2, 5, 0], dtype=np.int32)
    core.Net._net_names_used.clear()
    with core.NameScope(scope):
        model = ModelHelper("model")
        search = BeamSearchForwardOnly(beam, model, eos_token_id=2, go_token_id=1,
                                       post_eos_penalty=-1.5 if case == "penalty" else None)
        step = search.get_step_model().net
        names = ("table", "inputs", "length", "rewards", "words", "start", "seen", "h0")
        blobs = {name: model.net.AddExternalInput(name) for name in names}
        rows = step.Gather([blobs["table"], search.get_previous_tokens()], "rows")
        log_probs = step.Reshape(rows, ["log_probs", "old"], shape=[beam, columns])[0]
        h_prev = step.AddExternalInput("h_prev")  # how often a sentence has changed places
        h = step.Add([h_prev, blobs["seen"]], "h", broadcast=1)
        state = search.StateConfig(blobs["h0"], search.LinkConfig(h_prev, 0, 1), search.LinkConfig(h, 1, 1))
        attentions = step.ConstantFill([], "attentions", shape=[beam, 2, 1], value=0.5)
        results = search.apply(
            inputs=blobs["inputs"], length=blobs["length"], log_probs=log_probs, attentions=attentions,
            state_configs=[state], data_dependencies=[],
            word_rewards=blobs["rewards"] if case == "rewards" else None,
            possible_translation_tokens=blobs["words"] if case == "words" else None,
            go_token_id=blobs["start"] if case == "start" else None)
    workspace = Workspace(backend=backend)
    feeds = {"table": table, "inputs": np.zeros((2, 1), np.int32), "length": np.array([steps], np.int64),
             "rewards": rewards, "words": words, "start": np.array([4], np.float32),
             "seen": np.ones(1, np.float32), "h0": np.zeros((1, beam, 1), np.float32)}
    for name, value in feeds.items():
        workspace.feed_blob(str(blobs[name]), value)
    workspace.run_net_once(model.param_init_net)
    workspace.run_net_once(model.net)
    tokens, parents, scores, attention = (workspace.fetch_blob(str(blob)) for blob in results)
    found = expected(table, beam, steps, 4 if case == "start" else 1, 2, -1.5 if case == "penalty" else 0.0,
                     rewards if case == "rewards" else None, words if case == "words" else None)
    assert tokens.dtype == parents.dtype == np.int32 and attention.shape == (steps + 1, beam, 2)
    np.testing.assert_allclose(scores[:, :, 0], found[0], rtol=1e-5)
    np.testing.assert_array_equal(tokens[:, :, 0], found[1])
    np.testing.assert_array_equal(parents[:, :, 0], found[2])
