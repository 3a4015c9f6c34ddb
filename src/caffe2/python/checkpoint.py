"""Caffe2's `checkpoint`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.control.jobs": "Job JobRunner UploadTaskGroupBuilder epoch_limiter",
    "netgrad.control.task": "Node Task TaskGroup TaskOutput WorkspaceType final_output",
    "netgrad.control.net_builder": "ops",
    "netgrad.persist.checkpoints": "CheckpointManager MultiNodeCheckpointManager db_name get_ckpt_filename",
}, {"context": "caffe2.python.context", "core": "caffe2.python.core"})
