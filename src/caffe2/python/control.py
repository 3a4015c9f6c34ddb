"""Caffe2's `control`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.steps": """
        BoolNet CombineConditions Do DoParallel DoUntil DoWhile For GetConditionBlobFromNet If IfNot MergeConditionNets
        NotNet Switch SwitchNot Until While""",
}, {"core": "caffe2.python.core"})
