"""Shared names, released blobs and new orders never change what a net computes or what can be seen of it."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[1] / "autodiff"))

import nested_programs
from random_nets import Maker

from caffe2.python import brew, core, memonger, model_helper, workspace
from netgrad.graph.net import Net
from netgrad.graph.schema import SchemaError
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import NetError
from netgrad.runtime.planning.liveness import Liveness
from netgrad.runtime.workspace import Workspace
from netgrad.tools.memory import names, recompute, sharing

pytestmark = pytest.mark.filterwarnings("ignore::netgrad.graph.schema.SchemaWarning")

ORDERS = [memonger.topological_sort_traversal, memonger.topological_sort_traversal_longest_path]


def with_gradients(net, ys):
    """The net with its backward pass, or alone where that is refused."""
    try:
        net.AddGradientOperators(ys, overwritten="save")
    except Exception:
        pass
    return net.Proto()


def flat(r: random.Random):
    case = Maker(r, 14).case()
    net = Net("flat")
    net.Proto().op.extend(case.ops)
    return with_gradients(net, dict.fromkeys(list(case.ys)[:1])), case.feeds


def nested(r: random.Random):
    program = nested_programs.draw(r.randrange(10**6))
    return with_gradients(program.net, [program.y]), program.feeds


def run(net, feeds):
    ws = Workspace(backend="numpy")
    for name, value in feeds.items():
        ws.feed_blob(name, value)
    ws.run_net_once(net)
    return ws


def assert_same(before, after, blobs, what):
    for blob in sorted(blobs):
        if before.has_blob(blob):
            a, b = before.fetch_blob(blob), after.fetch_blob(blob)
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype, (what, blob)
                np.testing.assert_array_equal(a, b, f"{what}: {blob}")


def written(net):
    return {name for op in net.op for name in op.output}


def check(net, feeds, r: random.Random) -> int:
    """Applies every tool; returns how many names sharing saved."""
    before = run(net, feeds)
    visible = names.fixed_names(net, Liveness(net.op))
    kept = set(r.sample(sorted(written(net)), min(2, len(written(net)))))
    shared = sharing.share(net, written(net) - kept)
    assert memonger.verify_graph_equality(net, shared) and memonger.verify_inplace_blobs(net, shared)
    assert_same(before, run(shared, feeds), visible | kept, "share")
    released = memonger.release_blobs_when_used(net, kept)
    freed = {op.input[0] for op in released.op if op.type == "Free"}
    freed -= {op.input[0] for op in net.op if op.type == "Free"}
    assert not freed & (visible | kept)
    assert_same(before, run(released, feeds), written(net) - freed, "release")
    sizes = {name: r.randint(1, 20) for op in net.op for name in (*op.input, *op.output)}
    for order in ORDERS:
        for algo in memonger.AssignmentAlgorithm:
            optimized = memonger.optimize_interference(
                net, kept, ordering_function=order, algo=algo, blob_sizes=r.choice([None, sizes]))
            assert_same(before, run(optimized.net, feeds), visible | kept, f"{algo}")
            memonger.verify_assignments([a for a in optimized.assignments if not {b for b, _ in a} & visible])
    return len(written(net)) - len(written(shared))


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_flat_nets_compute_the_same(r):
    check(*flat(r), r)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_nets_with_control_flow_compute_the_same(r):
    check(*nested(r), r)


def test_names_are_saved_in_most_nets():
    saved = [check(*make(random.Random(seed)), random.Random(seed)) for seed in range(12) for make in (flat, nested)]
    assert sum(k > 0 for k in saved) > len(saved) / 2


def test_random_numbers_stay_the_same():
    net = core.Net("draws")
    net.UniformFill([], "a", shape=[4])
    net.Relu("a", "b")
    net.GaussianFill([], "c", shape=[4])
    net.Add(["b", "c"], "d")
    net.Relu("d", "e")
    net.set_rand_seed(7)
    shared = memonger.optimize_inference_fast(net.Proto(), [])
    assert {"a", "c"} <= written(shared)
    assert_same(run(net.Proto(), {}), run(shared, {}), {"e"}, "draws")


def test_state_kept_under_a_name_stays():
    net = core.Net("counts")
    net.Iter([], "i")
    net.Cast("i", "f", to="float")
    net.Relu("f", "g")
    assert "i" in written(memonger.optimize_inference_fast(net.Proto(), []))


def chain(n=6):
    model = model_helper.ModelHelper()
    x = "data"
    for k in range(n):
        x = brew.fc(model, x, f"fc{k}", dim_in=4, dim_out=4)
    return model


def test_a_chain_needs_two_names_and_its_result_keeps_its_own():
    model = chain()
    shared = memonger.optimize_inference_for_dag(model.net, ["data"], "scope")
    assert [op.output[0] for op in shared.op] == [
        "scope/__m0_shared", "scope/__m1_shared", "scope/__m0_shared", "scope/__m1_shared", "scope/__m0_shared", "fc5"]
    again = memonger.optimize_inference_fast(shared, [])
    assert memonger.verify_graph_equality(shared, again)


def test_sizes_decide_who_shares():
    net = core.Net("sizes")
    for k, size in enumerate([1, 100, 1, 100]):
        net.ConstantFill([], f"a{k}", shape=[size], value=1.0)
        net.Relu(f"a{k}", f"b{k}")
    both = {f"a{k}": [size] for k, size in enumerate([1, 100, 1, 100])}
    shared = sharing.share(net.Proto(), written(net.Proto()), shapes=both)
    fills = [op.output[0] for op in shared.op if op.type == "ConstantFill"]
    assert len(set(fills)) == 1, "one at a time needs one name"
    assert all(op.output[0].startswith("b") for op in shared.op if op.type == "Relu")


def test_blobs_of_several_devices_do_not_share():
    net = core.Net("devices")
    for device in (0, 1):
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, device)):
            for k in range(3):
                net.Relu(f"x{device}{k}", f"x{device}{k + 1}")
    found = memonger.optimize_inference_fast(net.Proto(), [])
    first, second = ({n for op in found.op if op.device_option.device_id == d for n in (*op.input, *op.output)}
                     for d in (0, 1))
    assert not first & second


def test_gradients_keep_their_values_when_shared():
    model = chain()
    loss = model.net.AveragedLoss("fc5", "loss")
    model.AddGradientOperators([loss])
    grads = set(model.param_to_grad.values())
    workspace.ResetWorkspace()
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("data", np.ones((3, 4), np.float32))
    workspace.RunNetOnce(model.net)
    before = {g: workspace.FetchBlob(g) for g in grads}
    for activations in (False, True):
        shared = memonger.share_grad_blobs(model.net, ["loss"], grads, "", share_activations=activations)
        assert len(written(shared)) < len(written(model.net.Proto())) - 4
        workspace.RunNetOnce(shared)
        for g in grads:
            np.testing.assert_array_equal(workspace.FetchBlob(g), before[g])
    model.net._net = shared
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net)
    assert model.net.BlobIsDefined("__m0_shared") and not model.net.BlobIsDefined("fc3_grad")


def test_an_order_keeps_reads_before_writes():
    net = core.Net("order")
    net.Relu("x", "a")
    net.Sigmoid("a", "b")
    net.Tanh("x", "a")
    net.Copy("a", "c")
    graph = memonger.compute_interference_graph(net.Proto().op)
    assert graph.edges() == [(0, 1), (0, 2), (0, 3), (1, 2), (2, 3)]
    assert graph[1][2]["deps"] == {"a"}
    assert [order(graph) for order in ORDERS] == [[0, 1, 2, 3]] * 2


def test_the_longest_path_comes_first():
    net = core.Net("order")
    net.Copy("w0", "w")
    net.FC(["x", "w", "b"], "y")
    net.Copy("v0", "v")
    net.FC(["y", "v", "b"], "z")
    graph = memonger.compute_interference_graph(net.Proto().op)
    assert memonger.topological_sort_traversal(graph) == [2, 0, 1, 3]
    assert memonger.topological_sort_traversal_longest_path(graph) == [0, 1, 2, 3]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(1, 9)), max_size=7))
def test_dynamic_programming_finds_the_least_memory(raw):
    ranges = [(f"b{k}", memonger.LiveRange(start, start + length, size)) for k, (start, length, size) in enumerate(raw)]
    ranges.sort(key=lambda item: item[1].used)
    found = memonger.compute_assignments_dp(ranges, None)
    memonger.verify_assignments(found)
    assert sorted(item for group in found for item in group) == sorted(ranges)
    assert memonger.get_memory_usage(found) == least(ranges)
    greedy = memonger.compute_assignments_greedy(ranges)
    memonger.verify_assignments(greedy)
    assert memonger.get_memory_usage(greedy) >= least(ranges)


def least(ranges):
    """By trying all partitions."""

    def extend(groups, rest):
        if not rest:
            return sum(max(r.size for _, r in group) for group in groups)
        item, *others = rest
        results = [extend([*groups, [item]], others)]
        for k, group in enumerate(groups):
            if all(item[1].defined > r.used or r.defined > item[1].used for _, r in group):
                results.append(extend([*groups[:k], [*group, item], *groups[k + 1:]], others))
        return min(results)

    return extend([], ranges)


def test_a_blob_that_is_written_again_is_in_use_until_then():
    net = core.Net("again")
    net.Relu("x", "a")
    net.Copy("a", "b")
    net.Copy("x", "a")
    ranges = memonger.compute_ranges(net.Proto().op)
    assert ranges == {"x": (None, 2, None), "a": (0, 2, None), "b": (1, None, None)}
    with pytest.raises(NetError, match="no size for blob 'x'"):
        memonger.compute_ranges(net.Proto().op, {"a": 1})


def test_estimates_count_what_is_allocated():
    net = core.Net("estimate")
    net.Relu("x", "a")
    net.Copy("a", "b")
    net.Free("a", "a")
    net.Copy("b", "c")
    shapes, types = {name: [2, 5] for name in "abc"}, dict.fromkeys("abc", caffe2_pb2.TensorProto.FLOAT)
    device = caffe2_pb2.DeviceOption()
    assert memonger.estimate_memory_usage([net.Proto()], shapes, types, device) == (120, 80, {"Relu": 40, "Copy": 80})
    assert memonger.estimate_memory_usage([net.Proto()], {}, types, device)[0] == 0
    assert len(net.Proto().op) == 4


def test_errors_say_what_to_do():
    model = chain()
    loss = model.net.AveragedLoss("fc5", "loss")
    model.AddGradientOperators([loss])
    with pytest.raises(AssertionError, match=r"operator [78], \w+, belongs to a backward pass"):
        memonger.optimize_inference_for_dag(model.net, [])
    net = core.Net("bad")
    net.Proto().op.extend([core.CreateOperator("Relu", "x", "y")])
    with pytest.raises(AssertionError, match="'x', which nothing wrote"):
        memonger.optimize_inference_for_dag(net, [])
    frozen = core.Net("frozen")
    with pytest.warns(UserWarning):
        frozen.IndexFreeze("a", "b")
    with pytest.raises(SchemaError, match="IndexFreeze"):
        memonger.optimize_inference_for_dag(frozen, ["a"])
    with pytest.raises(NetError, match="no assignment algorithm"):
        memonger.compute_assignments({}, [], "greedy")


def training_chain(n=8, random_layer=False):
    model = model_helper.ModelHelper()
    x = "data"
    for k in range(n):
        x = brew.relu(model, brew.fc(model, x, f"fc{k}", dim_in=4, dim_out=4), f"fc{k}")
        if random_layer:
            x = brew.dropout(model, x, f"d{k}", is_test=False)
    model.AddGradientOperators([model.net.AveragedLoss(x, "loss")])
    return model


def peak(net, sizes):
    lives = Liveness(net.op)
    freed = {v for p, op in enumerate(net.op) if op.type == "Free" for v in lives.writes[p]}
    return max(lives.bytes_at({v: 0 if v in freed else sizes.get(v.blob.split("_recomputed")[0], 0)
                               for v in lives.values}))


def test_what_is_computed_anew_gives_the_same_gradients_and_takes_less_memory():
    model = training_chain()
    net = model.net.Proto()
    grads = [str(g) for g in model.param_to_grad.values()]
    blobs = [f"fc{k}" for k in range(8) if k % 3]
    again = recompute.recompute(net, blobs)
    assert sum(op.type in ("FC", "Relu") for op in again.op) == 16 + 2 * len(blobs)
    workspace.ResetWorkspace()
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("data", np.ones((3, 4), np.float32))
    params = {p: workspace.FetchBlob(p) for p in model.params}
    feeds = {**params, "data": workspace.FetchBlob("data")}
    before, released = run(net, feeds), [memonger.release_blobs_when_used(n, grads) for n in (net, again)]
    for changed in (again, *released):
        assert_same(before, run(changed, feeds), [*grads, "loss"], "recompute")
    sizes = {f"fc{k}": 100 for k in range(8)} | {f"fc{k}_grad": 100 for k in range(8)}
    assert peak(released[1], sizes) < peak(released[0], sizes) * 0.7


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_any_net_computed_anew_gives_the_same_or_is_refused(r):
    net, feeds = flat(r)
    made = sorted({name for op in net.op if not op.is_gradient_op for name in op.output})
    try:
        again = recompute.recompute(net, r.sample(made, r.randint(0, len(made))))
    except recompute.CannotRecompute:
        return
    assert_same(run(net, feeds), run(again, feeds), written(net), "recompute")


def test_what_cannot_be_computed_anew_is_refused():
    net = training_chain(2, random_layer=True).net.Proto()
    with pytest.raises(NetError, match=r"Dropout, which makes 'd0', has effects \(random\)"):
        recompute.recompute(net, ["d0"])
    with pytest.raises(NetError, match="no blob 'nothing'"):
        recompute.recompute(net, ["nothing"])
    reused = core.Net("reused")
    reused.Sigmoid("x", "a")
    reused.Sqr("a", "b")
    reused.Copy("y", "x")
    reused.AddGradientOperators(["b"])
    with pytest.raises(NetError, match="operator 0, Sigmoid, which makes 'a', reads 'x', which is overwritten"):
        recompute.recompute(reused.Proto(), ["a"])
