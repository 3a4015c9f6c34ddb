"""Steps of builders, tasks and groups are those that Caffe2 builds."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def by_plan(text):
    return {plan.partition("\n")[0]: plan for plan in text.split("# ")[1:]}


def test_plans_are_those_of_caffe2():
    # in a process of its own, since names of nets and steps count up
    run = subprocess.run([sys.executable, HERE / "plans.py"], capture_output=True, text=True, check=True)
    ours = by_plan(run.stdout)
    theirs = by_plan((HERE / "plans.txt").read_text())
    # Caffe2 forgot to fill in this name
    theirs["task_with_setup"] = theirs["task_with_setup"].replace("%s:parallel", "trainer/my_task:parallel")
    assert len(theirs) == 9 and ours.keys() == theirs.keys()
    for name, plan in theirs.items():
        assert ours[name] == plan
