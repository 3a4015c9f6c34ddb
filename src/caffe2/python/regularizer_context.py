"""Caffe2's `regularizer_context`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.modifiers": "ModifierContext RegularizerContext UseModifierBase UseRegularizer"})
