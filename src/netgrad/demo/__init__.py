"""``netgrad demo``: a small convolutional net learns handwritten digits.

It shows the forward net and the backward pass that netgrad writes for it, trains, saves nets and parameters, has a new
process load them and predict, and leaves a training curve and a drawing.
"""

from netgrad.demo.errors import DemoError, MissingPackageError
from netgrad.demo.tour import Outcome, run

__all__ = ["DemoError", "MissingPackageError", "Outcome", "run"]
