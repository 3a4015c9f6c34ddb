"""Caffe2's `net_builder`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.net_builder": """
        NetBuilder Operations ops _Loop=Loop _ReporterBuilder=ReporterBuilder _RunIf=RunIf _RunOnce=RunOnce
        _SetupBuilder=SetupBuilder _StopGuard=StopGuard""",
    "netgrad.control.net_blocks": """
        _RunElseNet=RunElseNet _RunIfNet=RunIfNet _RunWhileCondition=RunWhileCondition _RunWhileNet=RunWhileNet""",
    "netgrad.control.operators": "add_if_op add_while_op",
    "netgrad.control.task": "Task TaskGroup",
}, {"context": "caffe2.python.context", "core": "caffe2.python.core"})
