"""Caffe2's `layers.margin_rank_loss`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.layers.ranking_losses": "MarginRankLoss",
    "netgrad.training.layers.base": "ModelLayer",
})
