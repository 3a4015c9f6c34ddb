"""Beam search as a recurrent network: each step keeps the best of all sentences that are one word longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from netgrad.proto import caffe2_pb2
from netgrad.training.zoo.seq2seq.model_helper import Seq2SeqModelHelper
from netgrad.training.zoo.seq2seq.vocabulary import GO_ID

_FLOAT, _INT32, _INT64 = (caffe2_pb2.TensorProto.FLOAT, caffe2_pb2.TensorProto.INT32, caffe2_pb2.TensorProto.INT64)


class Link(NamedTuple):
    """How a blob of the step is linked to the rows of a state.

    Attributes:
        blob: of the step net.
        offset: the row at time 0.
        window: the number of rows.
    """

    blob: Any
    offset: int
    window: int


class State(NamedTuple):
    """A state of the decoder.

    Attributes:
        initial_value: the blob with its first value.
        state_prev_link: how a step reads it.
        state_link: how a step makes the next one.
    """

    initial_value: Any
    state_prev_link: Link
    state_link: Link


class BeamSearchForwardOnly:
    """A search for the best sentences, `beam_size` of them at a time (K below). It has no gradient.

    The decoder's step is written into `get_step_model`: it reads the words of the last step, `get_previous_tokens`
    (1, K) int32, and the time, `get_timestep`. Then `apply` writes the network.

    Args:
        beam_size: K.
        model: where the network goes.
        eos_token_id: the word that ends a sentence.
        go_token_id: the word that begins one.
        post_eos_penalty: added to the score of a sentence for each word after its end; None: nothing is.
    """

    LinkConfig = Link
    StateConfig = State

    def __init__(self, beam_size: int, model: Any, eos_token_id: int, go_token_id: int = GO_ID,
                 post_eos_penalty: float | None = None) -> None:
        self.beam_size = beam_size
        self.model = model
        self.step_model = Seq2SeqModelHelper(name="step_model", param_model=model)
        self.go_token_id = go_token_id
        self.eos_token_id = eos_token_id
        self.post_eos_penalty = post_eos_penalty
        net = self.step_model.net
        (self.timestep, self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev,
         self.attention_t_prev) = net.AddExternalInputs(
            "timestep", "scores_t_prev", "tokens_t_prev", "hypo_t_prev", "attention_t_prev")
        words = net.Cast(self.tokens_t_prev, "tokens_t_prev_int32", to=_INT32)
        self.tokens_t_prev_int32_flattened = self._reshape(words, [1, -1], words, "input_t_int32_old_shape")

    def get_step_model(self) -> Seq2SeqModelHelper:
        return self.step_model

    def get_previous_tokens(self) -> Any:
        return self.tokens_t_prev_int32_flattened

    def get_timestep(self) -> Any:
        return self.timestep

    def apply(
        self, inputs: Any, length: Any, log_probs: Any, attentions: Any, state_configs: Sequence[State],
        data_dependencies: Sequence[Any], word_rewards: Any = None, possible_translation_tokens: Any = None,
        go_token_id: Any = None,
    ) -> tuple[Any, Any, Any, Any]:
        """Writes the network.

        Args:
            inputs: the words of the sentence that is translated, (L, 1).
            length: the blob with the number of steps T, (1,) int64.
            log_probs: of the step: the logarithm of each word's probability, (K, V).
            attentions: of the step: (K, L, 1).
            state_configs: the decoder's states.
            data_dependencies: blobs that have to be there before it runs.
            word_rewards: a blob of what each word adds to a score, (V,); None: nothing.
            possible_translation_tokens: a blob of the words for which log_probs has columns, if not all.
            go_token_id: a blob with the word that begins sentences, (1,) float; None: that of the constructor.

        Returns:
            For each step, the start included, (T + 1, K, 1): the last words of the best sentences (int32); which of the
            previous step's sentences they continue (int32); their scores. And their attention, (T + 1, K, L).
        """
        filler, net = self.model.param_init_net, self.step_model.net
        zero = filler.ConstantFill([], "ZERO", shape=[1], value=0, dtype=_INT32)
        first_step = net.EQ([zero, self.timestep], "on_initial_step")
        if self.post_eos_penalty is not None:
            log_probs = self._penalized(log_probs, first_step)
        scores, words = self._candidates(log_probs, word_rewards, possible_translation_tokens)
        scores_t, chosen, parent = self._best(scores, first_step, zero)
        parent_float = net.Cast(parent, "hypo_t", to=_FLOAT)
        attention_t = self._reshape(net.Gather([attentions, parent], "attention_t"), [1, self.beam_size, -1])
        words = self._reshape(words, [-1], "best_tokens_per_hypo_flatten", "best_tokens_per_hypo_old_shape")
        tokens_t = net.Cast(net.Gather([words, chosen], "tokens_t_int32"), "tokens_t", to=_FLOAT)
        states = [self._of_parent(state, parent) for state in state_configs]
        firsts = self._first_values(inputs, go_token_id)
        own = [State(first, Link(before, 0, 1), Link(after, 1, 1)) for first, before, after in zip(
            firsts, (self.scores_t_prev, self.tokens_t_prev, self.hypo_t_prev, self.attention_t_prev),
            (scores_t, tokens_t, parent_float, attention_t))]
        sequence = self.model.net.ConstantFill(
            length, "beam_search_fake_input", input_as_shape=True, extra_shape=[self.beam_size, 1], value=0.0,
            dtype=_FLOAT)
        all_scores, all_tokens, all_parents, all_attentions = self._network(
            sequence, [*states, *own], own, data_dependencies)
        outside = self.model.net
        return (outside.Cast(all_tokens, "output_token_beam_list", to=_INT32),
                outside.Cast(all_parents, "output_prev_index_beam_list", to=_INT32),
                outside.Alias(all_scores, "output_score_beam_list"),
                outside.Alias(all_attentions, "output_attention_weights_beam_list"))

    def _reshape(self, blob: Any, shape: Sequence[int], name: Any = None, old_shape: str | None = None) -> Any:
        """The blob in another shape, under its own name unless another is given."""
        name = blob if name is None else name
        return self.step_model.net.Reshape([blob], [name, old_shape or name + "_old_shape"], shape=list(shape))[0]

    def _penalized(self, log_probs: Any, first_step: Any) -> Any:
        """The probabilities, less the penalty where the sentence has ended."""
        filler, net = self.model.param_init_net, self.step_model.net
        end = filler.ConstantFill([], "eos_token", shape=[self.beam_size], value=self.eos_token_id, dtype=_INT32)
        penalty = filler.ConstantFill([], "finished_penalty", shape=[1], value=float(self.post_eos_penalty or 0),
                                      dtype=_FLOAT)
        none = filler.ConstantFill([], "ZERO_FLOAT", shape=[1], value=0.0, dtype=_FLOAT)
        penalty = net.Conditional([first_step, none, penalty], "possible_finished_penalty")
        words = net.Cast(net.FlattenToVec(self.tokens_t_prev, "tokens_t_flat"), "tokens_t_flat_int", to=_INT32)
        ended = net.Cast(net.EQ([words, end], "predecessor_is_eos"), "predecessor_is_eos_float", to=_FLOAT)
        penalties = net.Mul([ended, penalty], "predecessor_is_eos_penalty", broadcast=1)
        return net.Add([log_probs, penalties], "log_probs_penalized", broadcast=1, axis=0)

    def _candidates(self, log_probs: Any, word_rewards: Any, possible_words: Any) -> tuple[Any, Any]:
        """For each sentence the K best next words: scores with them, and the words, each (K, K)."""
        net = self.step_model.net
        best, words = net.TopK(log_probs, ["best_scores_per_hypo", "best_tokens_per_hypo_indices"], k=self.beam_size)
        if possible_words is not None:
            words = net.Gather([possible_words, words], ["best_tokens_per_hypo"])
        before = self._reshape(self.scores_t_prev, [self.beam_size], "scores_t_prev_squeezed",
                               "scores_t_prev_old_shape")
        scores = net.Add([best, before], "output_scores", broadcast=1, axis=0)
        if word_rewards is not None:
            rewards = net.Gather([word_rewards, words], "word_rewards_for_best_tokens_per_hypo")
            scores = net.Add([scores, rewards], "output_scores")
        return scores, words

    def _best(self, scores: Any, first_step: Any, zero: Any) -> tuple[Any, Any, Any]:
        """The K best of all candidates: their scores, positions, and which sentence they continue, each (1, K).

        On the first step all sentences are the same, and only the candidates of one of them are looked at.
        """
        filler, net = self.model.param_init_net, self.step_model.net
        scores = self._reshape(scores, [-1], old_shape="output_scores_old_shape")
        to_the_end = filler.ConstantFill([], "MINUS_ONE_INT32", value=-1, shape=[1], dtype=_INT32)
        size = filler.ConstantFill([], "beam_size", shape=[1], value=self.beam_size, dtype=_INT32)
        end = net.Conditional([first_step, size, to_the_end], ["slice_end"])
        scores = self._reshape(net.Slice([scores, zero, end], "output_scores_flattened_slice"), [1, -1])
        scores_t, chosen = net.TopK(scores, ["scores_t", "best_indices"], k=self.beam_size)
        size = filler.Cast(size, "BEAM_SIZE_64", to=_INT64)
        return scores_t, chosen, net.Div([chosen, size], "hypo_t_int32", broadcast=1)

    def _of_parent(self, state: State, parent: Any) -> State:
        """The state, taken for each new sentence from the one that it continues."""
        blob = state.state_link.blob
        rows = self._reshape(blob, [self.beam_size, -1])
        taken = self.step_model.net.Gather([rows, parent], f"{blob}_chosen_per_hypo")
        return state._replace(state_link=state.state_link._replace(blob=taken))

    def _first_values(self, inputs: Any, go_token_id: Any) -> list[Any]:
        """First values of scores, words, parents and attention."""
        filler, net = self.model.param_init_net, self.model.net

        def constant(name: str, value: float) -> Any:
            return filler.ConstantFill([], name, shape=[1], value=value, dtype=_FLOAT)

        scores = constant("initial_scores", 0.0)
        if go_token_id is None:
            words = constant("initial_tokens", float(self.go_token_id))
        else:
            words = net.Copy([go_token_id], "initial_tokens")
        parents = constant("initial_hypo", 0.0)
        flat, _ = net.Reshape(inputs, ["encoder_inputs_flattened", "encoder_inputs_old_shape"], shape=[-1])
        return [scores, words, parents, net.ConstantFill(flat, "init_attention", value=0.0, dtype=_FLOAT)]

    def _network(self, sequence: Any, states: Sequence[State], shown: Sequence[State],
                 data_dependencies: Sequence[Any]) -> list[Any]:
        """The RecurrentNetwork; returns all rows of the states shown."""
        parameters = self.step_model.params
        inputs = [sequence, *parameters, *(state.initial_value for state in states), *data_dependencies]
        links = [(link, f"{state.state_prev_link.blob}_states") for state in states
                 for link in (state.state_prev_link, state.state_link)]
        outputs = [state.state_link.blob + "_all" for state in shown]
        *results, _ = self.model.net.RecurrentNetwork(
            inputs, [*outputs, "step_workspaces"],
            param=[inputs.index(parameter) for parameter in parameters],
            alias_src=[f"{state.state_prev_link.blob}_states" for state in shown],
            alias_dst=list(map(str, outputs)),
            alias_offset=[0] * len(shown),
            recurrent_states=[f"{state.state_prev_link.blob}_states" for state in states],
            initial_recurrent_state_ids=[inputs.index(state.initial_value) for state in states],
            link_internal=[str(link.blob) for link, _ in links],
            link_external=[name for _, name in links],
            link_offset=[link.offset for link, _ in links],
            link_window=[link.window for link, _ in links],
            backward_link_internal=[], backward_link_external=[], backward_link_offset=[],
            step_net=self.step_model.net.Proto(),
            timestep=str(self.timestep),
            outputs_with_grads=[],
            enable_rnn_executor=1,
            rnn_executor_debug=0,
        )
        return results
