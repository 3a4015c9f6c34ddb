"""Caffe2's `models.seq2seq.beam_search`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.recurrent.beam_search": "BeamSearchForwardOnly",
    "netgrad.training.zoo.seq2seq.model_helper": "Seq2SeqModelHelper",
})
