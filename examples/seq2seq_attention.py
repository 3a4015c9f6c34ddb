"""An encoder and a decoder with attention learn to say sentences backwards; a beam search finds what they say.

The model is the one of caffe2.python.models.seq2seq; it is trained by Adam instead of its own gradient descent.
"""

import numpy as np

from caffe2.python import optimizer, workspace
from caffe2.python.models.seq2seq import seq2seq_util, train, translate
from running import Run, start

SPECIAL = [seq2seq_util.PAD, seq2seq_util.GO, seq2seq_util.EOS, seq2seq_util.UNK]
WORDS = [*SPECIAL, *"abcdefgh"]
VOCABULARY = {word: number for number, word in enumerate(WORDS)}
LONGEST = 6
BATCH = 64
PARAMS = {
    "attention": "regular",
    "encoder_type": {"encoder_layer_configs": [{"num_units": 64}], "use_bidirectional_encoder": False},
    "decoder_layer_configs": [{"num_units": 64}],
    "encoder_embedding_size": 16,
    "decoder_embedding_size": 16,
    "decoder_softmax_size": None,
    "batch_size": BATCH,
    "max_gradient_norm": 5.0,
    "optimizer_params": {"learning_rate": 0.01},
}


class Backwards(train.Seq2SeqModelCaffe2):
    """The model, with Adam for dense parameters and embeddings alike."""

    def norm_clipped_grad_update(self, model, scope):
        optimizer.build_adam(model, base_learning_rate=self.model_params["optimizer_params"]["learning_rate"],
                             max_gradient_norm=self.model_params["max_gradient_norm"],
                             sparse_dedup_aggregator="sum")  # a word that occurs often is updated once, by the sum

    def norm_clipped_sparse_grad_update(self, model, scope):
        """Adam updates the embeddings, too."""


def sentence(rng):
    return rng.integers(len(SPECIAL), len(WORDS), rng.integers(2, LONGEST + 1)).tolist()


def batch(rng, size):
    """Sentences with their translations."""
    return [(words, words[::-1]) for words in (sentence(rng) for _ in range(size))]


def main(run: Run) -> None:
    model = Backwards(PARAMS, len(VOCABULARY), len(VOCABULARY), num_gpus=0)
    model.initialize_from_scratch()
    for _ in run.steps():
        pairs = batch(run.rng, BATCH)
        words = sum(len(target) + 1 for _, target in pairs)
        run.record(loss_per_word=model.step(pairs, forward_only=False) / words)
    file = model.save(str(run.out / "backwards"), run.total)

    workspace.ResetWorkspace()
    decoder = translate.Seq2SeqModelCaffe2EnsembleDecoder({
        "ensemble_models": [{"source_vocab": VOCABULARY, "target_vocab": VOCABULARY, "model_params": PARAMS,
                             "model_file": file}],
        "decoding_params": {"beam_size": 4, "word_reward": 0.0, "unk_reward": 0.0}})
    decoder.load_models()
    right = 0
    tests = [*batch(np.random.default_rng(run.seed + 1), 39), ([4, 5, 6, 7, 8, 9], [9, 8, 7, 6, 5, 4])]
    for source, target in tests:
        found, attention, _ = decoder.decode(source, LONGEST + 2)
        right += found == [*target, seq2seq_util.EOS_ID]
    run.say("".join(WORDS[k] for k in source), "->", "".join(WORDS[k] for k in found))

    def draw(figure):
        axes = figure.subplots()
        axes.imshow(np.array(attention), cmap="Blues", vmin=0, vmax=1)
        axes.set_xticks(range(len(source)), [WORDS[k] for k in source])
        axes.set_yticks(range(len(found)), [WORDS[k] for k in found])
        axes.set_xlabel("what it reads")
        axes.set_ylabel("what it says")

    run.picture("attention.png", draw, size=(3.5, 3.5))
    run.figures(loss_per_word=np.mean(run.history["loss_per_word"][-10:]), sentences_right=right / len(tests))


if __name__ == "__main__":
    start(main, steps=180)
