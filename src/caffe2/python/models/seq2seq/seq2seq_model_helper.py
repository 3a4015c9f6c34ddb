"""Caffe2's `models.seq2seq.seq2seq_model_helper`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.zoo.seq2seq.model_helper": "Seq2SeqModelHelper",
})
