"""The layers of `brew`: functions that write operators, and the parameters they need, into a model."""
