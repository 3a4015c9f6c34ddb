"""Random operators with random arguments and inputs, most of them nonsense, and what became of each.

An operator may compute or be refused with an error of netgrad's; it must not raise anything else, hang, or take the
process with it. `survey` runs in processes of their own, which have little memory, so that the last two are seen too.

By hand: ``python tests/ops/random_operators.py --backend torch 0 20000``.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from netgrad.autodiff.errors import GradientError
from netgrad.graph import arguments as kinds
from netgrad.graph import registry
from netgrad.graph.declaration import Operator
from netgrad.graph.example import Quantized
from netgrad.graph.operator import CreateOperator
from netgrad.proto import caffe2_pb2
from netgrad.runtime import examples
from netgrad.runtime.errors import KernelError, NetError
from netgrad.runtime.workspace import Workspace

#: these end the process, wait for another thread, or run Python on purpose
LEFT_OUT = {"Crash", "DequeueBlobs", "DequeueRebatchingQueue", "EnqueueBlobs", "EnqueueRebatchingQueue", "LogFatal",
            "Python", "PythonDLPack", "PythonDLPackGradient", "PythonGradient", "SafeDequeueBlobs", "SafeEnqueueBlobs"}
MEMORY = 3 * 2**29  # of address space beyond what the process has when it starts
SECONDS = 20

INTEGERS = [-2**63, -2**31, -7, -2, -1, 0, 0, 1, 1, 2, 2, 3, 4, 5, 8, 100, 2**31 - 1, 2**31, 2**40, 2**63 - 1]
NUMBERS = [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 0.0, 1e-30, 0.1, 0.5, 1.0, 2.0, 3.5, 1e38]
WORDS = ["", "NCHW", "NHWC", "x", "sum", "mean", "é\0", "a" * 300, "step", "same", "0", "-1"]
DTYPES = ["float32"] * 6 + ["float64", "float16", "int32", "int32", "int64", "int64", "bool", "uint8", "int8", "int16",
                            "uint16"]
EDGES = [0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 7]


def declarations() -> list[type[Operator]]:
    """What a random operator is drawn from, in an order that does not change."""
    return [d for d in sorted(registry.every(), key=lambda d: d.type)
            if registry.family_index().get(d.type) and d.type not in LEFT_OUT]


def an_argument(draw: random.Random, argument: Any) -> Any:
    """A value for a declared argument: most often of its kind, whatever its size."""
    kind = type(argument)
    if draw.random() < 0.05:
        kind = draw.choice([kinds.Int, kinds.Float, kinds.Str, kinds.Ints, kinds.Floats])
    if kind in (kinds.Int, kinds.Bool, kinds.DType):
        return draw.choice(INTEGERS) if draw.random() < 0.5 else draw.randrange(0, 4)
    if kind is kinds.Float:
        return draw.choice(NUMBERS)
    if kind is kinds.Str:
        return draw.choice(WORDS)
    count = draw.randrange(0, 6)
    if kind is kinds.Floats:
        return [draw.choice(NUMBERS) for _ in range(count)]
    if kind is kinds.Strs:
        return [draw.choice(WORDS) for _ in range(count)]
    small = draw.random() < 0.6
    return [draw.randrange(0, 4) if small else draw.choice(INTEGERS) for _ in range(count)]


def values(draw: random.Random, shape: Iterable[int], dtype: str) -> np.ndarray:
    shape = tuple(shape)
    generator = np.random.default_rng(draw.randrange(2**32))
    if dtype == "object":
        return np.array([draw.choice(WORDS).encode() for _ in range(int(np.prod(shape)))], dtype=object).reshape(shape)
    kind = np.dtype(dtype).kind
    if kind == "f":
        found = generator.normal(size=shape) * draw.choice([1, 1, 1, 100])
        if found.size and draw.random() < 0.15:
            found.flat[0] = draw.choice(NUMBERS)
        with np.errstate(over="ignore"):
            return found.astype(dtype)
    if kind == "b":
        return generator.random(shape) < 0.5
    limits = np.iinfo(dtype)
    least, most = draw.choice([(0, 2), (0, 5), (0, 5), (-3, 5), (limits.min, limits.max)])
    return generator.integers(max(least, limits.min), most, size=shape, dtype=dtype)


def an_input(draw: random.Random, example: Any) -> Any:
    """An array: the example's, the same bent a little, or any other."""
    choice = draw.random()
    if not isinstance(example, np.ndarray) or choice < 0.2:
        shape = [draw.choice(EDGES) for _ in range(draw.choice([0, 1, 1, 2, 2, 3, 4, 5]))]
        return values(draw, shape, "object" if draw.random() < 0.05 else draw.choice(DTYPES))
    if choice < 0.5:
        return example
    shape = list(example.shape)
    if choice < 0.7 and shape:
        shape[draw.randrange(len(shape))] = draw.choice(EDGES)
    elif choice < 0.8:
        shape = shape[1:] if shape and draw.random() < 0.5 else [draw.choice(EDGES), *shape]
    return values(draw, shape, str(example.dtype) if draw.random() < 0.8 else draw.choice(DTYPES))


def random_operator(seed: int) -> tuple[caffe2_pb2.OperatorDef, list[Any], dict[str, Any]]:
    """An operator, operators that run before it, and what is fed; the same for a seed on every machine."""
    draw = random.Random(seed)
    known = declarations()
    declaration = known[seed % len(known)]
    example = declaration.example
    names, outputs, given, feeds, before = [], [], {}, {}, ()
    if example is not None:
        names, outputs, before = list(example.input_names), list(example.outputs), example.before
        given = dict(example.arguments) if draw.random() < 0.7 else {}
        feeds = examples.feeds(example)
    if example is None or draw.random() < 0.1:
        names = [f"in{k}" for k in range(draw.randrange(0, 6))]
        outputs = [f"out{k}" for k in range(draw.randrange(0, 4))]
    if draw.random() < 0.1 and names:
        names.append(draw.choice(names))
    if draw.random() < 0.1 and names:
        names.pop(draw.randrange(len(names)))
    if draw.random() < 0.1 and names and outputs:
        outputs[draw.randrange(len(outputs))] = draw.choice(names)
    for argument in declaration.arguments:
        if draw.random() < 0.3:
            given[argument.name] = an_argument(draw, argument)
    made = {blob for step in before for blob in step.outputs}
    for name in dict.fromkeys([*names, *feeds]):
        if name and name not in made and not isinstance(feeds.get(name), Quantized):
            feeds[name] = an_input(draw, feeds.get(name))
    op = CreateOperator(declaration.type, names, outputs, **given)
    return op, list(before), feeds


def outcome(seed: int, backend: str) -> tuple[str, str]:
    """Computed, refused, unclear (only a library's words in an error of ours) or wrong; and the words.

    On the backend "both" also "different": one computes and the other refuses, or the results are not alike.
    """
    if backend != "both":
        return ran(seed, backend)[:2]
    (kind, words, first), (other, others, second) = ran(seed, "numpy"), ran(seed, "torch")
    if kind == other == "computed":
        odd = [name for name, value in first.items() if not alike(value, second[name])]
        return ("different", f"{words}: {[(n, first[n], second[n]) for n in odd]}") if odd else (kind, words)
    if kind == other or "inputs of such dtypes" in words + others:  # what one library cannot and says so
        return kind, words
    return ("different", f"NumPy: {kind} {words}; torch: {other} {others}")


def alike(a: Any, b: Any) -> bool:
    """Whether two results agree, as far as numbers that may be huge or nearly cancel can."""
    if not hasattr(b, "numpy") or not isinstance(a, np.ndarray) or a.dtype == object:
        return True  # opaque, strings, single bytes
    b = b.numpy()
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind != "f":
        return True
    finite = (np.abs(a) < 1e4) & (np.abs(b) < 1e4)  # no NaN, nothing that cancels
    return bool(np.allclose(a[finite].astype(float), b[finite].astype(float), 1e-2, 1e-2)) or not finite.all()


def ran(seed: int, backend: str) -> tuple[str, str, dict[str, Any]]:
    """What became of one operator on one backend: the kind, the words, and the outputs unless they are drawn."""
    try:
        op, before, feeds = random_operator(seed)
    except (NetError, ValueError) as error:  # an argument that cannot stand in an OperatorDef at all
        return "refused", str(error), {}
    except Exception:
        return "wrong", traceback.format_exc(limit=-4), {}
    try:
        workspace = Workspace(backend=backend)
        for name, value in feeds.items():
            workspace.feed_blob(name, value)
        for step in before:
            workspace.run_operator(CreateOperator(step.type, list(step.inputs), list(step.outputs), **step.arguments))
        workspace.run_operator(op)
    except KernelError as error:
        clear = error.__cause__ is None or "\n  expected: " in str(error)
        return ("refused" if clear else "unclear"), f"{op.type}: {error}", {}
    except (NetError, GradientError) as error:
        return "refused", f"{op.type}: {error}", {}
    except Exception:
        return "wrong", f"{op.type}: {traceback.format_exc(limit=-4)}", {}
    declaration = registry.find(op.type)
    drawn = declaration is None or not declaration.effects.isdisjoint({"random", "state", "io", "blobs"})
    names = () if drawn else dict.fromkeys(name for name in op.output if name)
    return "computed", op.type, {name: workspace.values.get(name) for name in names}


def described(seed: int) -> str:
    try:
        op, _before, feeds = random_operator(seed)
    except Exception:
        return "an operator that cannot be written down"
    return f"{op} on {({name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)})}"


def _work(seeds: list[int], backend: str, results: Connection, folder: str) -> None:
    os.chdir(folder)  # Print, Save and their like write files
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    if backend != "numpy":
        import torch

        torch.set_num_threads(1)
        torch.zeros(2).add(1)
    with open("/proc/self/statm") as statm:
        held = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    for seed in seeds:
        results.send((seed, "began", described(seed)))
        results.send((seed, *outcome(seed, backend)))
    results.close()


def survey(seeds: Iterable[int], backend: str) -> Iterator[tuple[int, str, str]]:
    """Seed, what became of it, and the words, in order; "crashed" and "hung" beside what `outcome` says."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _survey(list(seeds), backend, folder)


def _survey(left: list[int], backend: str, folder: str) -> Iterator[tuple[int, str, str]]:
    context = multiprocessing.get_context("fork")
    while left:
        results, end = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(left, backend, end, folder))
        worker.start()
        end.close()
        seed, doing = left[0], ""
        try:
            while left:
                if not results.poll(SECONDS):
                    worker.kill()
                    worker.join()
                    yield seed, "hung", doing
                    left = left[left.index(seed) + 1:]
                    break
                seed, what, words = results.recv()
                if what == "began":
                    doing = words
                else:
                    left = left[1:]
                    yield seed, what, words
        except EOFError:
            worker.join()
            ended = signal.Signals(-worker.exitcode).name if worker.exitcode and worker.exitcode < 0 else "exit"
            yield seed, "crashed", f"{ended} {worker.exitcode}: {doing}"
            left = left[left.index(seed) + 1:] if seed in left else left
        worker.join()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="numpy")
    parser.add_argument("--show", default="unclear wrong crashed hung")
    parser.add_argument("first", type=int)
    parser.add_argument("last", type=int)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    for seed, what, words in survey(range(options.first, options.last), options.backend):
        counts[what] += 1
        if what in options.show.split():
            print(seed, what, words.strip().replace("\n", "\n    "), flush=True)
    print(dict(counts))
    return 1 if counts["wrong"] or counts["crashed"] or counts["hung"] else 0


if __name__ == "__main__":
    sys.exit(main())
