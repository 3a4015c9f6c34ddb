"""What `netgrad` itself offers, in plain Python names. Caffe2's names are in `caffe2.python`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from netgrad.graph.net import Net
from netgrad.graph.net_argument import require_net
from netgrad.proto import read_net, write_net
from netgrad.runtime import workspace as _workspace

if TYPE_CHECKING:
    import numpy as np

    from netgrad.autodiff.explanation import Explanation
    from netgrad.autodiff.gradient_map import GradientMap
    from netgrad.autodiff.verification import Finding
    from netgrad.tools.checking import Problem


def load(path: str | os.PathLike[str]) -> Net:
    """The net in a file: binary (`.pb`) or text (`.pbtxt`, `.prototxt`). Loading executes nothing.

    The name of the net receives a suffix if a net of this process has it already.

    Raises:
        FormatError: the file holds no net, or is damaged.
        OSError: the file cannot be read.
    """
    return Net(read_net(path))


def save(net: Any, path: str | os.PathLike[str]) -> None:
    """Writes a net (a `Net` or a NetDef) to a file, which is there whole or not at all.

    Names that end in `.pbtxt`, `.prototxt` or `.txt` get text, others the binary form.
    """
    require_net(net)
    write_net(net.Proto() if hasattr(net, "Proto") else net, path)


def save_parameters(source: Any, path: str | os.PathLike[str], names: Iterable[Any] | None = None) -> None:
    """Writes named tensors to a file: see `netgrad.persist.archives.save_parameters`."""
    from netgrad.persist.archives import save_parameters

    save_parameters(source, path, names)


def load_parameters(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The named tensors in a file: see `netgrad.persist.archives.load_parameters`."""
    from netgrad.persist.archives import load_parameters

    return load_parameters(path)


def backward(net: Net, of: Any, wrt: Any = None, *, overwritten: str = "error") -> GradientMap:
    """Appends to a net the operators of its derivative.

    Args:
        net: the net; its operators so far are differentiated.
        of: what is differentiated: a blob, several, or a mapping from blob to the blob that holds its given gradient
            (None: ones). With several, the sum of all is differentiated.
        wrt: a blob, or several, whose gradients are wanted; None: all that `of` depends on. With it, only what leads to
            these gradients is computed.
        overwritten: what to do when a gradient needs a value that a later operator overwrote: "error" refuses and says
            how to mend it, "save" has such values copied before they go.

    Returns:
        A mapping from blob to its gradient's blob (for the rows of a table that were read: to a pair ``indices``,
        ``values``). Blobs without a gradient are not in it; asking for one says why, and a `UserWarning` names those
        of ``wrt``.

    Raises:
        GradientError: there is no such derivative; the message names the operators and what would mend it. Among its
            subclasses are `MissingRuleError`, `OverwrittenError` and `UnknownBlobError` (`netgrad.autodiff.errors`).
    """
    ys = dict(of) if isinstance(of, Mapping) else _several(of)
    wanted = None if wrt is None else _several(wrt)
    gradients: GradientMap = net.AddGradientOperators(ys, wrt=wanted, overwritten=overwritten)
    for blob in wanted or ():
        if blob not in gradients:
            warnings.warn(why_no_gradient(gradients, blob).splitlines()[0], stacklevel=2)
    return gradients


def hessian_vector(net: Net, of: Any, vectors: Mapping[Any, Any], *, overwritten: str = "save") -> dict[str, Any]:
    """Appends to a net the operators of products of a Hessian with vectors; the Hessian itself is never made.

    For f the sum of the blobs ``of`` and vectors v, the product with respect to blob x is the sum over all blobs y of
    d^2 f / dx dy v_y: the derivative of the gradient in the direction of the vectors. It costs about as much as two
    backward passes.

    Args:
        net: the net; its operators so far are differentiated, twice.
        of: what is differentiated, as in `backward`.
        vectors: each blob by which is differentiated -> the blob that holds its vector, of its shape and dtype.
        overwritten: as in `backward`. "save" is the default here, because backward passes overwrite their own values.

    Returns:
        Blob -> the blob of its product, like it in shape and dtype; zeros where the second derivative is zero.

    Raises:
        GradientError: there is no such derivative, as in `backward`.
        TypeError: ``vectors`` is no mapping.
    """
    from netgrad.autodiff.hessian import hessian_vector

    if not isinstance(vectors, Mapping):
        raise TypeError(f"vectors maps each blob to the blob that holds its vector, as in {{'w': 'v'}}; found "
                        f"{vectors!r}")
    return hessian_vector(net, dict(of) if isinstance(of, Mapping) else _several(of), vectors, overwritten)


def why_no_gradient(gradients: GradientMap, blob: Any) -> str:
    """Why a blob is not among these gradients: a line, and, where more is known, lines that explain it."""
    from netgrad.autodiff.errors import NoGradientError, UnknownBlobError

    try:
        gradients[blob]
    except UnknownBlobError:  # a blob of a pass that was differentiated in its turn, which `explain` does not look at
        return f"{str(blob)!r} has no gradient"
    except NoGradientError as error:
        return str(error)
    raise ValueError(f"{str(blob)!r} has a gradient")


def explain(net: Any, blob: Any, of: Any = None) -> Explanation:
    """Says why a blob of a net has the gradient that it has, or none; ``print`` it.

    Args:
        net: a `Net` or a NetDef.
        blob: the blob in question.
        of: what is differentiated, as in `backward`; None: what the net's own backward pass differentiates, or else the
            outputs that nothing reads.

    Raises:
        UnknownBlobError: the blob does not occur in the net.
    """
    from netgrad.autodiff.explanation import explain

    require_net(net)
    return explain(net, blob, _targets(of))


def verify(net: Any, of: Any = None) -> list[Finding]:
    """What is wrong with the backward pass that a net contains; an empty list when it is right. Nothing is run.

    Args:
        net: a `Net` or a NetDef with a backward pass, written by whatever program.
        of: what was differentiated, as in `backward`; None: the blobs whose gradients the pass fills with ones.
    """
    from netgrad.autodiff.verification import verify

    require_net(net)
    return verify(net, _targets(of))


def check(net: Any, of: Any = None) -> list[Problem]:
    """What is wrong with a net, all of it at once: see `netgrad.tools.checking.check`."""
    from netgrad.tools.checking import check

    require_net(net)
    return check(net, _targets(of))


def seed(n: int) -> None:
    """Makes the random numbers that operators draw from now on a function of ``n``, the same on every backend."""
    from netgrad.runtime import random

    random.seed(n)


def use_backend(name: str) -> None:
    """Chooses what computes in this process: "numpy" or "torch", as ``NETGRAD_BACKEND`` does from outside.

    It holds for all workspaces that name no backend of their own, that of Caffe2's functions among them, and is to be
    said before the first of them holds a blob.

    Raises:
        BackendError: there is no such backend, it is not installed, or a workspace computes with another already.
    """
    from netgrad.runtime import backends
    from netgrad.runtime.errors import BackendError

    backends.get(name)
    for label, workspace in _workspace.Workspace.by_name.items():
        if workspace.chosen_backend not in (None, name):
            raise BackendError(f"the workspace {label!r} computes with {workspace.chosen_backend} already; call "
                               f"use_backend({name!r}) before its first blob is fed or made")
    backends.use(name)


class Workspace(_workspace.Workspace):
    """Blobs by name, and nets that run on them.

    Args:
        parent: a workspace whose blobs are seen, and written, through this one.
        backend: "numpy" or "torch"; by default what ``NETGRAD_BACKEND`` says, or torch where it is installed.
    """

    def feed(self, values: Mapping[Any, Any] | None = None, /, **named: Any) -> None:
        """Sets blobs to copies of values: ``feed(x=array)``, or ``feed({"scope/x": array})``.

        A value is an array, a torch tensor, a number, a string, ``bytes``, or a list of these. dtypes stay as they are;
        Python floats become float32.

        Raises:
            BlobError: a value cannot be a blob.
        """
        for name, value in {**(values or {}), **named}.items():
            self.feed_blob(name, value)

    def fetch(self, blob: Any) -> np.ndarray | bytes | Any:
        """A copy of a blob as a NumPy array (strings: an array of ``bytes``), or ``bytes`` for a single string.

        A gradient's pair of indices and values gives a pair of arrays.

        Raises:
            BlobNotFound: there is no blob of that name.
        """
        if isinstance(blob, tuple):
            return tuple(self.fetch_blob(part) for part in blob)
        return self.fetch_blob(blob)

    def run(self, obj: Any, times: int = 1) -> bool:
        """Runs a net, an operator or a plan: a `Net`, or the message.

        A net is bound when it first runs, and again when it has changed since.

        Raises:
            OperatorError: an operator cannot be made or failed; the message names it, its blobs and its Python line.
        """
        if not hasattr(obj, "Proto") and not hasattr(obj, "external_input"):
            for _ in range(times):
                super().run(obj)
            return True
        definition = obj.Proto() if hasattr(obj, "Proto") else obj
        created = self._nets.get(definition.name)
        if created is None or created.source != definition.SerializeToString():
            self.create_net(obj, overwrite=True)
        return self.run_net(definition.name, times)

    def __getitem__(self, blob: Any) -> Any:
        return self.fetch(blob)

    def __setitem__(self, name: Any, value: Any) -> None:
        self.feed_blob(name, value)

    def __contains__(self, name: object) -> bool:
        return self.has_blob(name)


def _several(blobs: Any) -> list[Any]:
    """A list of blobs from one or several."""
    return list(blobs) if isinstance(blobs, Iterable) and not isinstance(blobs, (str, bytes)) else [blobs]


def _targets(of: Any) -> Any:
    return of if of is None or isinstance(of, Mapping) else _several(of)
