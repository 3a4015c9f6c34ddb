"""Caffe2's `rnn_cell`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.recurrent.attention": """
        AttentionType apply_dot_attention apply_recurrent_attention apply_regular_attention
        apply_soft_coverage_attention""",
    "netgrad.recurrent.attention_cells": "AttentionCell LSTMWithAttentionCell MILSTMWithAttentionCell",
    "netgrad.recurrent.cells": "RNNCell _RectifyName=as_reference",
    "netgrad.recurrent.cudnn": "GetLSTMParamNames InitFromLSTMParams cudnn_LSTM",
    "netgrad.recurrent.layers": """
        BasicRNN LSTM LSTMWithAttention LayerNormLSTM LayerNormMILSTM MILSTM _LSTM _layered_LSTM layered_LSTM""",
    "netgrad.recurrent.lstm": """
        BasicRNNCell LSTMCell LSTMInitializer LayerNormLSTMCell LayerNormMILSTMCell MILSTMCell""",
    "netgrad.recurrent.wrappers": "DropoutCell MultiRNNCell MultiRNNCellInitializer UnrolledCell",
    "netgrad.training.initializers": "Initializer",
    "netgrad.training.model_helper": "ModelHelper",
    "netgrad.training.parameters": "ParameterTags",
    "netgrad.training.sharing": "ParameterSharing",
}, {
    "brew": "caffe2.python.brew",
    "caffe2_pb2": "netgrad.proto.caffe2_pb2",
    "core": "caffe2.python.core",
    "recurrent": "caffe2.python.recurrent",
    "scope": "caffe2.python.scope",
    "utils": "caffe2.python.utils",
    "workspace": "caffe2.python.workspace",
})
