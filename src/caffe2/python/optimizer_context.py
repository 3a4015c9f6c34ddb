"""Caffe2's `optimizer_context`."""

from netgrad.facade import facade

facade(
    __name__,
    {"netgrad.training.modifiers": "DEFAULT_OPTIM ModifierContext OptimizerContext UseModifierBase UseOptimizer"},
)
