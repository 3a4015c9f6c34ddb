"""The interface of a net: external inputs and outputs, and its gradient."""

from __future__ import annotations

from typing import Any

from netgrad.graph import operator as operators
from netgrad.graph.argument_values import MakeArgument
from netgrad.graph.blob import BlobReference, ScopedBlobReference
from netgrad.graph.net_base import NetBase


class NetInterface(NetBase):
    """What a net reads from outside and leaves behind."""

    def AddExternalInput(self, *inputs: Any) -> Any:
        """Declares blobs that others provide.

        Returns:
            A reference bound to this net, or a list of them if several were given.

        Raises:
            AssertionError: one is declared already.
        """
        names = [str(blob) for blob in inputs]
        if not names:
            raise AssertionError("AddExternalInput takes at least one blob")
        seen: set[str] = set()
        for name in names:
            if name in seen or self.is_external_input(name):
                raise AssertionError(f"net {self.Name()!r} has an external input {name!r} already")
            seen.add(name)
        self._net.external_input.extend(names)
        refs = [BlobReference(name, self) for name in names]
        return refs[0] if len(refs) == 1 else refs

    def AddExternalInputs(self, *inputs: Any) -> Any:
        return self.AddExternalInput(*inputs)

    def AddScopedExternalInputs(self, *inputs: Any) -> list[BlobReference]:
        refs = self.AddExternalInput(*[ScopedBlobReference(name) for name in inputs])
        return refs if isinstance(refs, list) else [refs]

    def AddExternalOutput(self, *outputs: Any) -> None:
        """Declares blobs that others may use; raises AssertionError if this net does not define one."""
        for output in outputs:
            if not isinstance(output, BlobReference):
                raise AssertionError(f"an external output is a BlobReference, not {output!r}; "
                                     f"net.GetBlobRef(name) makes one")
            if not self.BlobIsDefined(output):
                raise AssertionError(f"net {self.Name()!r} does not define {str(output)!r}, so it cannot be an output")
        self._net.external_output.extend([str(output) for output in outputs])

    def AddExternalOutputs(self, *outputs: Any) -> None:
        self.AddExternalOutput(*outputs)

    def AddScopedExternalOutputs(self, *outputs: Any) -> None:
        self.AddExternalOutput(*[ScopedBlobReference(name) for name in outputs])

    @property
    def external_inputs(self) -> list[BlobReference]:
        return [BlobReference(name, self) for name in self._net.external_input]

    @property
    def external_outputs(self) -> list[BlobReference]:
        return [BlobReference(name, self) for name in self._net.external_output]

    def AddArgument(self, arg_name: str, arg_value: Any) -> None:
        """Adds an argument of the net itself."""
        self._net.arg.append(MakeArgument(arg_name, arg_value))

    def AddGradientOperators(self, ys: Any, skip: int = 0, **options: Any) -> Any:
        """Appends the operators of the backward pass.

        Args:
            ys: the blobs to differentiate: a list (their gradients are ones), or a dictionary from blob to the blob
                that holds its gradient, to a `GradientSlice`, or to None (ones).
            skip: how many of the first operators are left out.
            options: see `netgrad.autodiff.appending.add_gradient_operators`: ``wrt``, ``overwritten``, ...

        Returns:
            A map from blobs to the blobs (or slices) that hold their gradients.
        """
        from netgrad.autodiff.appending import add_gradient_operators

        self._index.forget(self._net)  # names may have been changed by hand; read anew when somebody asks
        forward = len(self._net.op)
        gradients = add_gradient_operators(self, ys, skip=skip, **options)
        if operators.immediate is not None:
            for op in self._net.op[forward:]:
                operators.immediate(op)
        return gradients

    def ExplainGradient(self, blob: Any) -> Any:
        """Says why a blob has the gradient that it has, or none (see `netgrad.autodiff.explanation.explain`)."""
        from netgrad.autodiff.explanation import explain

        return explain(self, blob)
