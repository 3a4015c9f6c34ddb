"""Caffe2's `recurrent`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.recurrent.network": "recurrent_net retrieve_step_blobs set_rnn_executor_config",
}, {"core": "caffe2.python.core", "workspace": "caffe2.python.workspace"})
