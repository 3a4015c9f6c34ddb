"""Caffe2's `modeling.net_modifier`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.net_modifiers.base": "NetModifier"})
