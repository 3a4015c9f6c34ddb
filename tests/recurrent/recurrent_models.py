"""Recurrent models that netgrad and Caffe2 have to build alike; ``python recurrent_models.py FILE`` asks Caffe2."""

import sys


def _layer(create, dims=3, outputs_with_grads=(0,), states=2, lengths=True, scope="rnn", reads=(0,), **options):
    def build(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
        model = ModelHelper("model")
        layers = len(dims) if isinstance(dims, list) else 1
        first = [core.BlobReference(f"first_{k}") for k in range(states * layers)] if states else None
        kind = getattr(gru_cell if create == "GRU" else rnn_cell, create)
        results = kind(model, "data", core.BlobReference("lengths") if lengths else None, first, 4, dims, scope,
                       outputs_with_grads=list(outputs_with_grads), **options)
        return model, [results[k] for k in reads]

    return build


def _attention(kind, **options):
    def build(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
        model = ModelHelper("model")
        results = rnn_cell.LSTMWithAttention(
            model=model, decoder_inputs="data", decoder_input_lengths="lengths", initial_decoder_hidden_state="h0",
            initial_decoder_cell_state="c0", initial_attention_weighted_encoder_context="a0", encoder_output_dim=5,
            encoder_outputs="encoded", encoder_lengths=options.pop("encoder_lengths", None), decoder_input_dim=4,
            decoder_state_dim=options.pop("state", 3), scope="decoder",
            attention_type=getattr(attention.AttentionType, kind), **options)
        return model, [results[0], results[4]]

    return build


def _residual(unrolled=None, final_dropout=None):
    def build(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
        model = ModelHelper("model")
        with core.NameScope("outer"):
            cells = [rnn_cell.MILSTMCell(name=f"layer{i}", input_size=3, hidden_size=3, forget_bias=0.0,
                                         memory_optimization=False) for i in range(3)]
            decoder = rnn_cell.MultiRNNCell(cells, name="decoder", residual_output_layers=[1, 2])
            cell = rnn_cell.AttentionCell(
                encoder_output_dim=5, encoder_outputs=core.BlobReference("encoded"), encoder_lengths=None,
                decoder_cell=decoder, decoder_state_dim=3, name="attention",
                attention_type=attention.AttentionType.Recurrent,
                weighted_encoder_outputs=core.BlobReference("weighted"), attention_memory_optimization=True)
            if final_dropout is not None:
                cell = rnn_cell.DropoutCell(cell, dropout_ratio=final_dropout, name="dropout", is_test=False)
            if unrolled:
                cell = rnn_cell.UnrolledCell(cell, unrolled)
            indices = [*decoder.output_indices, 6]
            output, _ = cell.apply_over_sequence(
                model, core.BlobReference("data"), core.BlobReference("lengths"),
                [core.BlobReference(f"first_{k}") for k in range(7)], [2 * k for k in indices])
        return model, [output]

    return build


def _layered(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
    model = ModelHelper("model")
    rnn_cell.layered_LSTM(model, "data", "lengths", ["h0", "c0"], 4, [3, 3], "rnn", outputs_with_grads=[0])
    return model, []  # the second layer begins with last states, whose gradients Caffe2 does not take


def _crf(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
    model = ModelHelper("model")
    layer = crf.CRFWithLoss(model, 3)
    return model, [layer.crf_loss("predictions", "labels")]


def _crf_decoded(brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf):
    from caffe2.python.crf_predict import crf_update_predictions

    model = ModelHelper("model")
    crf_update_predictions(model, crf.CRFWithLoss(model, 3, core.BlobReference("transitions")), "predictions")
    return model, []


MODELS = {
    "basic_forward": _layer("BasicRNN", states=1, activation="tanh", forward_only=True, reads=()),
    "basic_forward_drop": _layer("BasicRNN", states=1, activation="relu", drop_states=True, forward_only=True,
                                 reads=()),
    "basic": _layer("BasicRNN", states=1, activation="tanh", lengths=False),
    "lstm": _layer("LSTM", forget_bias=0.5),
    "lstm_all_outputs": _layer("LSTM", outputs_with_grads=[0, 1, 2, 3], reads=(0, 1, 2, 3)),
    "lstm_no_lengths": _layer("LSTM", lengths=False, memory_optimization=True),
    "lstm_own_states": _layer("LSTM", states=0, drop_states=True),
    "lstm_layers": _layer("LSTM", dims=[3, 2, 3]),
    "lstm_forward": _layer("LSTM", forward_only=True, reads=()),
    "lstm_unrolled": _layer("LSTM", dims=[3, 2], static_rnn_unroll_size=2),
    "lstm_layered": _layered,
    "layer_norm": _layer("LayerNormLSTM", outputs_with_grads=[1], reads=(1,)),
    "milstm": _layer("MILSTM", memory_optimization=True),
    "layer_norm_milstm": _layer("LayerNormMILSTM"),
    "gru": _layer("GRU", states=1),
    "gru_linear": _layer("GRU", states=1, lengths=False, linear_before_reset=True),
    "attention_regular": _attention("Regular", encoder_lengths="encoded_lengths"),
    "attention_recurrent": _attention("Recurrent", lstm_memory_optimization=True, attention_memory_optimization=True),
    "attention_dot": _attention("Dot"),
    "attention_dot_alike": _attention("Dot", state=5),
    "attention_coverage": _attention("SoftCoverage"),
    "residual": _residual(),
    "residual_dropout": _residual(final_dropout=0.25),
    "residual_unrolled": _residual(unrolled=2, final_dropout=0.25),
    "crf": _crf,
    "crf_decoded": _crf_decoded,
}


def lines_of(name):
    """The model's init net and net, its gradient included: a line for each operator, nets in arguments indented."""
    from caffe2.python import attention, brew, core, crf, gru_cell, rnn_cell
    from caffe2.python.model_helper import ModelHelper

    core.Net._net_names_used.clear()
    model, outputs = MODELS[name](brew, core, ModelHelper, rnn_cell, gru_cell, attention, crf)
    if outputs:
        model.net.AddGradientOperators(
            [model.net.SumElements(output, f"loss_{k}") for k, output in enumerate(outputs)])
    return [*_net_lines(model.param_init_net.Proto(), ""), *_net_lines(model.net.Proto(), "")]


def _net_lines(net, indent):
    yield f"{indent}net {net.name}: {' '.join(net.external_input)} -> {' '.join(net.external_output)}"
    sums = []
    for op in net.op:
        if op.type == "Sum" and op.device_option.extra_info:
            sums.append(f"{indent}  {' '.join(op.output)} = Sum {' '.join(sorted(op.input))}")
            continue
        yield from sorted(sums)  # in which order it adds up several blobs, and several terms, Caffe2 does not say
        sums = []
        mark = "'" if op.is_gradient_op else ""
        arguments = [a for a in op.arg if a.name not in ("order", "use_cudnn", "cudnn_exhaustive_search")]
        if op.type == "RecurrentNetworkGradient":
            arguments = []  # those of its forward operator
        plain = [f" {a.name}={_value(a)}" for a in arguments if not a.HasField("n")]
        yield f"{indent}  {' '.join(op.output)} = {op.type}{mark} {' '.join(op.input)}{''.join(plain)}"
        for argument in arguments:
            if argument.HasField("n"):
                yield f"{indent}    {argument.name}:"
                yield from _net_lines(argument.n, indent + "    ")
    yield from sorted(sums)


def _value(argument):
    fields = [(field.name, value) for field, value in argument.ListFields() if field.name != "name"]
    return ",".join(f"{name}:{[*value] if name in ('floats', 'ints', 'strings') else value}" for name, value in fields)


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        for name in MODELS:
            file.write("\n".join([f"== {name}", *lines_of(name), ""]))
