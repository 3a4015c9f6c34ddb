"""Lives of values and sharing of storage, found without running."""

from __future__ import annotations

import pytest
from runtime_nets import net, op

from netgrad.runtime.planning.liveness import BEFORE, Liveness
from netgrad.runtime.workspace import Workspace


def lives(*ops):
    return Liveness(ops)


def value(found, name):
    blob, version = name.split("@")
    (only,) = [v for v in found.values if v.blob == blob and v.version == int(version)]
    return only


def names(values):
    return sorted(map(repr, values))


CHAIN = [op("TAffine", "x", "a"), op("TAffine", "a", "b"), op("TAffine", "b", "a"), op("Add", "a x", "y")]


def test_versions_reads_and_survivors():
    found = lives(*CHAIN)
    assert names(found.values) == ["a@1", "a@2", "b@1", "x@0", "y@1"]
    x, first, second = value(found, "x@0"), value(found, "a@1"), value(found, "a@2")
    assert x.made == BEFORE and x.read == [0, 3] and x.survives
    assert first.made == 0 and first.last == 1 and not first.survives
    assert second.read == [3] and second.survives and found.final("a") is second and found.final("nothing") is None
    assert [v and v.blob for v in found.reads[3]] == ["a", "x"]


def test_what_may_be_overwritten():
    found = lives(*CHAIN)
    assert found.may_be_overwritten(value(found, "a@1"), 1)
    assert not found.may_be_overwritten(value(found, "x@0"), 3), "it was there before: others may hold it"
    assert not found.may_be_overwritten(value(found, "b@1"), 2), "it can be fetched after the run"
    twice = lives(op("TAffine", "x", "a"), op("TAffine", "a", "b"), op("TAffine", "a", "c"), op("TAffine", "c", "a"))
    assert not twice.may_be_overwritten(value(twice, "a@1"), 1) and twice.may_be_overwritten(value(twice, "a@1"), 2)


def test_views_keep_the_storage_of_what_they_show():
    reshape = op("Reshape", "a", "v shape")
    found = lives(op("TAffine", "x", "a"), reshape, op("TAffine", "x", "a"), op("TAffine", "v", "y"))
    first = value(found, "a@1")
    assert names(found.sharing(first)) == ["a@1", "v@1"]
    assert names(found.holders(first, 1)) == ["v@1"]
    assert not found.may_be_overwritten(first, 1), "v, which survives, may be the same storage"
    through = lives(op("Reshape", "x", "v shape"), op("TAffine", "v", "v"))
    assert not through.may_be_overwritten(value(through, "v@1"), 1), "v shows x, which was there before"


def test_what_ends_and_what_is_live():
    found = lives(*CHAIN)
    assert [names(found.ends_at(k)) for k in range(4)] == [[], ["a@1"], [], []]
    assert names(found.live_at(1)) == ["a@1", "b@1", "x@0"] and names(found.live_at(3)) == ["a@2", "b@1", "x@0", "y@1"]
    sizes = dict.fromkeys(found.values, 10)
    assert found.bytes_at(sizes) == [20, 30, 30, 40]
    assert found.bytes_at({}) == [0, 0, 0, 0]


def test_a_value_that_nobody_reads_ends_where_it_was_made():
    found = lives(op("TAffine", "x", "a"), op("TAffine", "x", "a"))
    assert names(found.ends_at(0)) == ["a@1"]


@pytest.mark.parametrize("type", ["GetAllBlobNames", "Load", "NoSuchOperator"])
def test_operators_that_see_other_blobs_keep_all_that_is_there(type):
    found = lives(op("TAffine", "x", "a"), op(type, "c", "d"), op("TAffine", "x", "a"))
    assert value(found, "a@1").read == [1]


@pytest.mark.parametrize("inside, read", [("TAffine", [1]), ("GetAllBlobNames", [1]), ("", [])])
def test_nets_inside_operators_keep_what_they_name(inside, read):
    loop = op("While", "c", "d")
    if inside:
        loop.arg.add(name="loop_net").n.op.append(op(inside, "a" if inside == "TAffine" else "", "d"))
    found = lives(op("TAffine", "x", "a"), op("TAffine", "x", "b"), loop, op("TAffine", "x", "a"))
    assert value(found, "a@1").read == [2 for _ in read]
    assert value(found, "b@1").read == ([2] if inside == "GetAllBlobNames" else [])


def test_operators_that_bind_their_outputs_read_their_inputs_alone():
    found = lives(op("TAffine", "x", "a"), op("AtomicIter", "m i", "i"), op("TAffine", "x", "a"))
    assert value(found, "a@1").read == []


def test_absent_inputs_and_unnamed_outputs_are_no_values():
    absent = op("TAffine", "x", "y")
    absent.input.append("")
    absent.output.append("")
    found = lives(absent)
    assert found.reads[0][1] is None and found.writes[0][1] is None and names(found.values) == ["x@0", "y@1"]


def test_a_plan_knows_types_and_hosts(ws: Workspace):
    ws.feed_blob("x", [1.0, 2.0])
    ws.feed_blob("s", ["a"])
    plan = ws.create_net(net("n", op("TAffine", "x", "y"), op("TUpper", "s", "t"), op("TFirst", "y", "z"))).plan
    assert plan.types["y"].dims == (2,) and plan.types["y"].dtype == "float32" and plan.types["z"].dims is None
    assert [plan.on_host(k) for k in range(3)] == [False, True, False]
    assert names(plan.liveness.values) == ["s@0", "t@1", "x@0", "y@1", "z@1"] and list(plan.positions) == [0, 1, 2]
