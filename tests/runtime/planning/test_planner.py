"""Which passes run, how they are switched off, and that watched nets run the plain plan."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from runtime_nets import net, op

from netgrad.runtime.observers import RunCountObserver
from netgrad.runtime.planning import allocator, planner


def update(ws):
    for name, value in {"p": np.zeros(3), "g": np.ones(3), "lr": np.ones(1), "one": np.ones(1)}.items():
        ws.feed_blob(name, value)
    return net("n", *[op("WeightedSum", "p one g lr", "p"), op("TAffine", "p", "q")])


def test_passes_are_chosen_by_name():
    usual = set(planner.NAMES) - {"bfloat16"}
    assert planner.choice("") == planner.choice("all") == usual
    assert planner.choice("+bfloat16") == usual | {"bfloat16"} and planner.choice("bfloat16") == {"bfloat16"}
    assert planner.choice("none") == set()
    assert planner.choice("updates") == {"updates"}
    assert planner.choice(" -updates , -allocator") == usual - {"updates", "allocator"}
    with pytest.raises(ValueError, match=r"no pass 'fast'; there are allocator, .*updates.*all and none"):
        planner.choice("-fast")
    with pytest.raises(ValueError, match=r"with and without a sign"):
        planner.choice("updates,-allocator")


def test_the_environment_and_the_context_decide(ws, monkeypatch):
    definition = update(ws)
    monkeypatch.setenv("NETGRAD_PASSES", "none")
    assert ws.create_net(definition).plan.notes == ()
    with planner.passes("updates"):
        (note,) = ws.create_net(definition, overwrite=True).plan.notes
    assert (note.by, note.positions) == ("updates", (0,))
    monkeypatch.delenv("NETGRAD_PASSES")
    assert ws.create_net(definition, overwrite=True).plan.notes


def test_nets_that_run_once_and_watched_nets_run_plainly(ws):
    definition = update(ws)
    created = ws.create_net(definition)
    observer = RunCountObserver(created)
    created.observers.append(observer)
    ws.run_net("n", 2)
    assert observer.count == 4 and ws.fetch_blob("q").tolist() == [2, 2, 2]
    created.observers.clear()
    ws.run_net("n", 2)
    assert ws.fetch_blob("q").tolist() == [4, 4, 4]
    assert len(created.time_operators(1)) == 2 and ws.fetch_blob("q").tolist() == [5, 5, 5]
    assert ws.run_net_once(definition) and ws.fetch_blob("q").tolist() == [6, 6, 6]


@pytest.mark.skipif(not allocator.keep_memory(), reason="needs glibc")
def test_memory_is_kept_between_runs():
    program = """
import resource, sys
from netgrad.runtime.planning import allocator
import numpy as np
if sys.argv[1] == "keep":
    allocator.keep_memory()
def run():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        [np.ones(1 << 19) for _ in range(8)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
run()
print(run())
"""
    faults = [int(subprocess.run([sys.executable, "-c", program, how], capture_output=True, check=True).stdout)
              for how in ("keep", "not")]
    assert faults[0] * 10 < faults[1]
