"""What deriving a backward pass costs, as a ratio to one bare ``net_def.op.add(...)`` for each forward operator.

    python benchmarks/backward.py [--rounds 9] [--operators 20000]

Counted are AddGradientOperators and SerializeToString. Where they are installed, onnx-ad (an ONNX model into the
ONNX model of its derivative) and JAX (``make_jaxpr(grad(f))``) derive a chain of the same kind, of fewer operators.
Runs are interleaved and medians compared: machines drift, ratios do not. The bound is 4 for the chain and the fan,
10 ms for the Concat.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence

from netgrad.graph.net import Net
from netgrad.proto import caffe2_pb2

Written = Sequence[tuple[str, list[str], list[str]]]


def chain(n: int) -> tuple[Written, str]:
    """FC and Relu in turn, every parameter used once."""
    ops, h = [], "x"
    for k in range(n // 2):
        ops += [("FC", [h, f"w{k}", f"b{k}"], [f"h{k}"]), ("Relu", [f"h{k}"], [f"r{k}"])]
        h = f"r{k}"
    return ops, h


def fan(n: int) -> tuple[Written, str]:
    """One blob with n readers, whose results are added up."""
    return [*(("Relu", ["x"], [f"r{k}"]) for k in range(n)), ("Sum", [f"r{k}" for k in range(n)], ["y"])], "y"


def concat(n: int) -> tuple[Written, str]:
    """One operator with n inputs."""
    return [("Concat", [f"x{k}" for k in range(n)], ["y", "_y_dims"])], "y"


def bare(ops: Written) -> float:
    start = time.perf_counter()
    net = caffe2_pb2.NetDef()
    for type, inputs, outputs in ops:
        net.op.add(type=type, input=[*inputs], output=[*outputs])
    return time.perf_counter() - start


def netgrad(ops: Written, y: str) -> float:
    proto = caffe2_pb2.NetDef(name="forward")
    for type, inputs, outputs in ops:
        proto.op.add(type=type, input=inputs, output=outputs)
    net = Net(proto)
    gc.collect()
    start = time.perf_counter()
    net.AddGradientOperators([y])
    net.Proto().SerializeToString()
    return time.perf_counter() - start


def onnx_ad(n: int) -> Callable[[], float] | None:
    try:
        import onnx_ad as rival
        from onnx import TensorProto, helper
    except ImportError:
        return None
    nodes, h = [], "x"
    for k in range(n // 2):
        nodes += [helper.make_node("Gemm", [h, f"w{k}", f"b{k}"], [f"h{k}"]),
                  helper.make_node("Relu", [f"h{k}"], [f"r{k}"])]
        h = f"r{k}"
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in
              ["x", *(f"{p}{k}" for k in range(n // 2) for p in "wb")]]
    graph = helper.make_graph(nodes, "g", values, [helper.make_tensor_value_info(h, TensorProto.FLOAT, [4, 4])])
    model = helper.make_model(graph)

    def run() -> float:
        start = time.perf_counter()
        rival.reverse(model).SerializeToString()
        return time.perf_counter() - start

    return run


def jaxpr(n: int) -> Callable[[], float] | None:
    try:
        import jax
    except ImportError:
        return None
    import numpy as np

    w = np.ones((4, 4), np.float32)
    b = np.ones(4, np.float32)

    def run() -> float:
        def f(x: object, parameters: list[tuple[object, object]]) -> object:
            for w, b in parameters:
                x = jax.numpy.maximum(x @ w.T + b, 0)
            return x.sum()

        start = time.perf_counter()
        jax.make_jaxpr(jax.grad(f, argnums=(0, 1)))(w, [(w, b)] * (n // 2))
        return time.perf_counter() - start

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operators", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    cases = {f"chain of {args.operators}": chain(args.operators), "fan of 3000": fan(3000),
             "Concat of 4000": concat(4000)}
    rivals = {"onnx-ad, chain of 200": onnx_ad(200), "JAX, chain of 200": jaxpr(200)}
    ratios: dict[str, list[float]] = {}
    milliseconds: dict[str, list[float]] = {}
    for _ in range(args.rounds):
        for name, (ops, y) in cases.items():
            cost, unit = netgrad(ops, y), bare(ops)
            ratios.setdefault(name, []).append(cost / unit)
            milliseconds.setdefault(name, []).append(1e3 * cost)
        small = bare(chain(200)[0])
        for name, run in rivals.items():
            if run is not None:
                cost = run()
                ratios.setdefault(name, []).append(cost / small)
                milliseconds.setdefault(name, []).append(1e3 * cost)
    print(f"{'':24} {'x bare op.add':>14} {'ms':>9}")
    for name in ratios:
        ratio = "" if name.startswith("Concat") else f"{statistics.median(ratios[name]):.1f}"
        print(f"{name:24} {ratio:>14} {statistics.median(milliseconds[name]):9.2f}")
    for name, run in rivals.items():
        if run is None:
            print(f"{name:24} {'not installed':>14}")


if __name__ == "__main__":
    main()
