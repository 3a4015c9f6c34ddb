"""Caffe2's `normalizer_context`."""

from netgrad.facade import facade

facade(__name__, {"netgrad.training.modifiers": "ModifierContext NormalizerContext UseModifierBase UseNormalizer"})
