"""Optimizers: they write the operators that update parameters into a net."""
