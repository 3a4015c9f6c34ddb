"""Opaque blobs: counters, flags, statistics, maps, indexes, queues, datasets; and operators on strings."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.proto import caffe2_pb2
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.workspace import Workspace

I32 = np.int32


def words(*values: bytes) -> np.ndarray:
    return np.array(values, object)


class Bench:
    """A workspace in which single operators run."""

    def __init__(self, backend: str) -> None:
        self.workspace = Workspace(backend=backend)

    def __call__(self, type: str, inputs: Any = (), outputs: Any = (), feeds: Any = None, **arguments: Any) -> Any:
        """Feeds, runs, and returns the outputs: the only one itself."""
        for name, value in (feeds or {}).items():
            self.workspace.feed_blob(name, value)
        net = caffe2_pb2.NetDef(name=type, op=[operator(type, list(inputs), list(outputs), **arguments)])
        self.workspace.run_net_once(net)
        found = [self.workspace.fetch_blob(name) for name in outputs]
        return found[0] if len(found) == 1 else found


@pytest.fixture(params=["numpy", "torch"])
def run(request: Any) -> Bench:
    return Bench(request.param)


def test_counters(run: Bench) -> None:
    run("CreateCounter", [], ["c"], init_count=2)
    assert [bool(run("CountDown", ["c"], ["done"])) for _ in range(4)] == [False, False, True, True]
    assert run("CheckCounterDone", ["c"], ["done"])
    assert int(run("CountUp", ["c"], ["n"])) == -2 and int(run("RetrieveCount", ["c"], ["n"])) == -1
    assert int(run("ResetCounter", ["c"], ["n"], init_count=5)) == -1 and int(run("RetrieveCount", ["c"], ["n"])) == 5


def test_adding_under_a_lock_from_many_threads(run: Bench) -> None:
    run("CreateMutex", [], ["m"], {"total": np.array([0]), "one": np.array([1])})
    operators = [operator("AtomicFetchAdd64", ["m", "total", "one"], ["total", f"seen{k}"]) for k in range(4)]
    nets = [caffe2_pb2.NetDef(name=f"n{k}", op=[op] * 50) for k, op in enumerate(operators)]
    threads = [threading.Thread(target=run.workspace.run_net_once, args=(net,)) for net in nets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(int(run.workspace.fetch_blob(f"seen{k}")) for k in range(4)) == 199


def test_flags(run: Bench) -> None:
    run("CreateAtomicBool", [], ["f"])
    for condition, expected in ((False, False), (True, True), (False, True)):
        run("ConditionalSetAtomicBool", ["f", "c"], [], {"c": np.array([condition])})
        assert bool(run("CheckAtomicBool", ["f"], ["v"])) is expected


def test_statistics(run: Bench) -> None:
    run("StatRegistryExport", [], ["k", "v", "t"])
    for value in (2.5, -1.0):
        run("AveragePut", ["x"], [], {"x": np.float32(value)}, stat_name="mean", magnitude_expand=10)
        run("IncrementPut", ["x"], [], stat_name="sum")
    run("TimerBegin", [], ["timer"])
    assert run("TimerGetAndEnd", ["timer"], ["ns"]) > 0
    names, values, _ = run("StatRegistryExport", [], ["k", "v", "t"])
    found = dict(zip(names, values))
    assert (found[b"mean/stat_value/sum"], found[b"mean/stat_value/count"], found[b"sum/stat_value"]) == (15, 2, 1)
    run("StatRegistryCreate", [], ["own"])
    run("StatRegistryUpdate", ["k", "v", "own"])
    assert run("StatRegistryExport", ["own"], ["k2", "v2", "t2"])[1].tolist() == values.tolist()


def test_maps(run: Bench) -> None:
    run("KeyValueToMap", ["k", "v"], ["m"], {"k": np.array([3, 1]), "v": np.array([30, 10], I32)})
    keys, values = run("MapToKeyValue", ["m"], ["k2", "v2"])
    assert (keys.tolist(), values.tolist(), values.dtype) == ([3, 1], [30, 10], I32)
    run("CreateMap", [], ["m"], key_dtype=10)
    assert run("MapToKeyValue", ["m"], ["k2", "v2"])[0].dtype == np.int64


@pytest.mark.parametrize(("create", "keys"), [
    ("IntIndexCreate", np.array([7, 5, 7], I32)), ("LongIndexCreate", np.array([7, 5, 7])),
    ("StringIndexCreate", words(b"x", b"y", b"x")),
])
def test_indexes(run: Bench, create: str, keys: np.ndarray) -> None:
    run(create, [], ["i"], max_elements=4)
    assert run("IndexGet", ["i", "k"], ["n"], {"k": keys}).tolist() == [1, 2, 1]
    assert run("IndexSize", ["i"], ["n"]) == 3 and run("IndexStore", ["i"], ["s"]).tolist() == keys[:2].tolist()
    run("IndexFreeze", ["i"], ["i"])
    unknown = words(b"z") if keys.dtype == object else np.array([99], keys.dtype)
    assert run("IndexGet", ["i", "u"], ["n"], {"u": unknown}).tolist() == [0]
    run(create, [], ["j"], max_elements=3)
    run("IndexLoad", ["j", "s"], ["j"])
    assert run("IndexGet", ["j", "k"], ["n"]).tolist() == [1, 2, 1]
    with pytest.raises(OperatorError, match="full"):
        run("IndexGet", ["j", "u"], ["n"])
    run(create, [], ["l"])
    run("IndexLoad", ["l", "s"], ["l"], skip_first_entry=1)
    assert run("IndexGet", ["l", "k"], ["n"]).tolist() == [2, 1, 2]


def test_records_go_through_a_queue_between_threads(run: Bench) -> None:
    run("CreateBlobsQueue", [], ["q"], {"a": np.ones(2), "b": words(b"w")}, capacity=1, num_blobs=2)
    writer = threading.Thread(target=lambda: [run("EnqueueBlobs", ["q", "a", "b"], ["a", "b"]) for _ in range(3)])
    writer.start()
    for _ in range(3):
        assert run("DequeueBlobs", ["q"], ["c", "d"])[1].tolist() == [b"w"]
    writer.join()
    run("CloseBlobsQueue", ["q"])
    assert bool(run("SafeEnqueueBlobs", ["q", "a", "b"], ["a", "b", "closed"])[2])
    assert bool(run("SafeDequeueBlobs", ["q"], ["c", "d", "over"])[2])
    with pytest.raises(OperatorError, match="closed"):
        run("DequeueBlobs", ["q"], ["c", "d"])


def test_batches_are_cut_anew_by_a_rebatching_queue(run: Bench) -> None:
    run("CreateRebatchingQueue", [], ["q"], {"x": np.arange(5)}, capacity=9)
    run("EnqueueRebatchingQueue", ["q", "x"], enqueue_batch=True)
    run("EnqueueRebatchingQueue", ["q", "one"], [], {"one": np.array(7)})
    run("CloseRebatchingQueue", ["q"])
    batches = [run("DequeueRebatchingQueue", ["q"], ["y"], num_elements=4).tolist() for _ in range(2)]
    assert batches == [[0, 1, 2, 3], [4, 7]]


FIELDS = ["label", "words:lengths", "words:values:lengths", "words:values:values"]
DATA = {"label": np.arange(3), "wl": np.array([1, 0, 2], I32), "vl": np.array([2, 0, 1], I32), "v": np.array([7, 8, 9])}


def test_a_dataset_is_read_in_batches(run: Bench) -> None:
    run("CreateTreeCursor", [], ["c"], DATA, fields=FIELDS)
    run("CheckDatasetConsistency", list(DATA), [], fields=FIELDS)
    outputs = ["l2", "wl2", "vl2", "v2"]
    batches = [[x.tolist() for x in run("ReadNextBatch", ["c", *DATA], outputs, batch_size=2)] for _ in range(3)]
    assert batches == [[[0, 1], [1, 0], [2], [7, 8]], [[2], [2], [0, 1], [9]], [[], [], [], []]]
    assert run("GetCursorOffset", ["c"], ["o"]).tolist() == [3, 3, 3]
    run("PackRecords", list(DATA), ["packed"], fields=FIELDS)
    unpacked = run("UnPackRecords", ["packed"], outputs, fields=FIELDS)
    assert [x.tolist() for x in unpacked] == [x.tolist() for x in DATA.values()]
    run("ResetCursor", ["c"])
    assert run("ComputeOffset", ["c", *DATA], ["m"]).tolist() == [[0, 0, 0], [1, 1, 2], [2, 1, 2], [3, 3, 3]]
    found = run("ReadRandomBatch", ["c", "idx", "m", *DATA], outputs, {"idx": np.array([2, 0, 1])}, batch_size=2)
    assert [x.tolist() for x in found] == [[2, 0], [2, 1], [0, 1, 2], [9, 7, 8]]
    run("ResetCursor", ["c"])
    order = run("SortAndShuffle", ["c", *DATA], ["order"], sort_by_field_idx=1, batch_size=2, shuffle_size=2)
    assert sorted(order) == [0, 1, 2]
    assert [len(x) for x in run("TrimDataset", list(DATA), list(DATA), fields=FIELDS, multiple_of=2)] == [2, 2, 1, 2]
    with pytest.raises(OperatorError, match="ends before"):
        run("CheckDatasetConsistency", list(DATA), [], {**DATA, "vl": np.array([3], I32)}, fields=FIELDS)


def test_rows_are_appended_and_collected(run: Bench) -> None:
    feeds = {"a": np.ones((1, 2)), "b": np.zeros((2, 2))}
    assert run("Append", ["a", "b"], ["a"], feeds).tolist() == [[1, 1], [0, 0], [0, 0]]
    run("CreateMutex", [], ["m"])
    more = {"c": np.ones((1, 2)), "d": np.ones((3, 2))}
    assert [len(x) for x in run("AtomicAppend", ["m", "a", "b", "c", "d"], ["a", "b"], more)] == [4, 5]
    run("CreateTensorVector", [], ["v"])
    for _ in range(3):
        run("CollectTensor", ["v", "a"], ["v"], num_to_collect=2)
    assert run("TensorVectorSize", ["v"], ["n"]) <= 2 and run("ConcatTensorVector", ["v"], ["t"]).shape[1] == 2


def test_a_reservoir_keeps_as_many_rows_as_it_may(run: Bench) -> None:
    run("CreateMutex", [], ["m"], {"r": np.zeros((0, 1)), "n": np.array([0]), "x": np.arange(5.0).reshape(5, 1)})
    kept, seen = run("ReservoirSampling", ["r", "n", "x", "m"], ["r", "n"], num_to_collect=3)
    assert kept.shape == (3, 1) and set(kept.ravel()) <= {0, 1, 2, 3, 4} and seen.tolist() == [5]


@pytest.mark.parametrize(("type", "arguments", "expected"), [
    ("StringStartsWith", {"prefix": "ab"}, [True, False]), ("StringEndsWith", {"suffix": "d"}, [True, False]),
    ("StringEquals", {"text": "b"}, [False, True]), ("StringPrefix", {"length": 2}, [b"ab", b"b"]),
    ("StringSuffix", {"length": 2}, [b"cd", b"b"]), ("StringJoin", {"delimiter": "-"}, [b"abcd-", b"b-"]),
])
def test_strings(run: Bench, type: str, arguments: dict[str, Any], expected: list[Any]) -> None:
    assert run(type, ["x"], ["y"], {"x": words(b"abcd", b"b")}, **arguments).tolist() == expected


def test_numbers_are_joined_into_strings(run: Bench) -> None:
    feeds = {"x": np.float32([[1.5, 1e10], [3, 1e-7]])}
    assert run("StringJoin", ["x"], ["y"], feeds).tolist() == [b"1.5,1e+10,", b"3,1e-07,"]
    columns = run("StringJoin", ["x"], ["y"], {"x": np.array([[1, 2], [3, 4]])}, axis=1, delimiter="")
    assert columns.tolist() == [b"13", b"24"]


def test_checks_of_values(run: Bench, capsys: Any) -> None:
    bad = {"x": np.float32([1, np.nan, np.inf])}
    for type, outputs in (("EnforceFinite", []), ("NanCheck", ["y"])):
        with pytest.raises(OperatorError, match=r"nan at \(1,\); 2 of 3"):
            run(type, ["x"], outputs, bad)
    with pytest.raises(OperatorError, match="no luck"):
        run("Assert", ["b"], [], {"b": np.array([True, False])}, error_msg="no luck")
    run("Assert", ["b"], [], {"b": np.zeros(0, I32)})
    for type in ("ThrowException", "ThrowChildThreadException"):
        with pytest.raises(OperatorError, match="told so"):
            run(type, message="told so")
    with pytest.raises(OperatorError, match="says that it failed"):
        run("Fail")
    assert not run("IsEmpty", ["x"], ["y"]) and run("HasElements", ["b", "x"], ["y"])
    assert not run("HasElements", ["b"], ["y"])
    run("Print", ["x"], [], limit=1)
    assert "x: float32 (3,): 1.0" in capsys.readouterr().err


def test_text_files_are_read_in_batches_pass_after_pass(run: Bench, tmp_path: Any) -> None:
    file = tmp_path / "table.txt"
    file.write_text("1.5\tab\n2\tc d\n3\t\n")
    run("CreateTextFileReader", [], ["r"], filename=str(file), num_passes=2, field_types=[1, 4])
    batches = [[x.tolist() for x in run("TextFileReaderRead", ["r"], ["a", "b"], batch_size=4)] for _ in range(3)]
    assert batches == [[[1.5, 2, 3, 1.5], [b"ab", b"c d", b"", b"ab"]], [[2, 3], [b"c d", b""]], [[], []]]
    file.write_text("1.5\n")
    run("CreateTextFileReader", [], ["r"], filename=str(file), field_types=[1, 4])
    with pytest.raises(OperatorError, match=r"line 1 of .* has 1 fields"):
        run("TextFileReaderRead", ["r"], ["a", "b"])


def test_functions_of_pytorch_by_name(run: Bench) -> None:
    feeds = {"x": np.float32([[3, 1], [2, 4]]), "mask": np.array([1, 0], np.uint8), "v": np.float32([9])}
    assert run("ATen", ["x"], ["y"], feeds, operator="sum").tolist() == 10
    assert run("ATen", ["x"], ["y"], operator="sum", dim=1, keepdim=0).tolist() == [4, 6]
    assert run("ATen", ["x"], ["y"], operator="pow", exponent=2.0).tolist() == [[9, 1], [4, 16]]
    assert run("ATen", ["x", "mask"], ["y"], operator="index").tolist() == [[3, 1]]
    assert run("ATen", ["x", "mask", "v"], ["y"], operator="index_put").tolist() == [[9, 9], [2, 4]]
    assert [y.tolist() for y in run("ATen", ["x"], ["y", "i"], operator="sort")] == [[[1, 3], [2, 4]], [[1, 0], [0, 1]]]
    for arguments, message in (({"operator": "pow"}, "no form of pow"), ({"operator": "nonsense"}, "no function")):
        with pytest.raises(OperatorError, match=message):
            run("ATen", ["x"], ["y"], **arguments)


def test_blobs_as_a_whole(run: Bench) -> None:
    assert run("FeedBlob", [], ["s"], value="hello") == b"hello"
    assert run("GetAllBlobNames", [], ["n"], {"x": np.ones(2)}).tolist() == [b"n", b"s", b"x"]
    assert run("Free", ["x"], ["x"]).shape == (0,)
    assert run("CopyOnDeviceLike", ["y", "x"], ["z"], {"y": np.ones(2)}).tolist() == [1, 1]
    parts = run("UnsafeCoalesce", ["a", "b"], ["a", "b", "c"], {"a": np.float32([[1]]), "b": np.float32([2])})
    assert [x.tolist() for x in parts] == [[[1]], [2], [1, 2]]
    total = [run("Accumulate", ["a"], ["sum"], gamma=0.5).tolist() for _ in range(3)]
    assert total == [[[1]], [[1.5]], [[1.75]]]
