"""Caffe2's `experiment_util`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.experiment_log": "ExternalLogger ModelTrainerLog",
})
