"""Caffe2's `gru_cell`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.recurrent.gru": "GRU GRUCell"},
       {"brew": "caffe2.python.brew", "rnn_cell": "caffe2.python.rnn_cell"})
