"""Jobs: what runs once, what runs in every epoch, what runs at the end; and the runner that saves in between."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Protocol, Self

from netgrad.control.session import Session
from netgrad.control.task import Task, TaskGroup, TaskOutput, WorkspaceType
from netgrad.graph.blob import BlobReference
from netgrad.graph.context import Managed
from netgrad.graph.net import Net

log = logging.getLogger("netgrad")


class Job(Managed):
    """Groups of tasks for a `JobRunner`. In its ``with`` block tasks go into the group of epochs unless told.

    Args:
        init_group: runs once, at the start; its nodes are those whose blobs are saved.
        epoch_group: runs again and again, until a stop condition holds at its end.
        download_group: runs once after the last epoch.
        exit_group: runs once, at the end.
        stop_conditions: outputs of tasks; see `add_stop_condition`.
        nodes_to_checkpoint: nodes whose blobs are saved, if not those of ``init_group``.
    """

    def __init__(self, init_group: Any = None, epoch_group: Any = None, download_group: Any = None,
                 exit_group: Any = None, stop_conditions: list[TaskOutput] | None = None,
                 nodes_to_checkpoint: list[str] | None = None) -> None:
        self.init_group = init_group or TaskGroup(workspace_type=WorkspaceType.GLOBAL)
        self.epoch_group = epoch_group or TaskGroup()
        self.download_group = download_group or TaskGroup()
        self.exit_group = exit_group or TaskGroup()
        self.stop_conditions = stop_conditions or []
        self._nodes_to_checkpoint = nodes_to_checkpoint

    def nodes_to_checkpoint(self) -> list[str]:
        """The nodes whose blobs are saved."""
        return self._nodes_to_checkpoint or self.init_group.used_nodes()

    def compile(self, session_class: type[Session]) -> None:
        """Makes all groups ready for sessions of a class."""
        self._nodes_to_checkpoint = self.nodes_to_checkpoint()
        for group in ("init_group", "epoch_group", "download_group", "exit_group"):
            setattr(self, group, session_class.compile(getattr(self, group)))

    def __enter__(self) -> Self:
        super().__enter__()
        self.epoch_group.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.epoch_group.__exit__()
        super().__exit__(*error)

    def add_stop_condition(self, output: BlobReference | TaskOutput) -> None:
        """Adds a condition that ends the job where it is true after an epoch: an output of a task, or a blob.

        Raises:
            AssertionError: it is neither, as in Caffe2.
        """
        if isinstance(output, BlobReference):
            output = Task(outputs=[output], group=self.epoch_group).outputs()[0]
        if not isinstance(output, TaskOutput):
            raise AssertionError(f"a stop condition is a TaskOutput or a BlobReference, not a {type(output).__name__}")
        self.stop_conditions.append(output)


def epoch_limiter(job: Job, num_epochs: int) -> None:
    """Ends a job after a number of epochs."""
    with job.init_group:
        init_net = Net("epoch_counter_init")
        counter = init_net.CreateCounter([], init_count=num_epochs - 1)
        Task(step=init_net)
    with job.epoch_group:
        epoch_net = Net("epoch_countdown")
        finished = epoch_net.CountDown(counter)
        output = Task(step=epoch_net, outputs=finished).outputs()[0]
    job.add_stop_condition(output)


class UploadTaskGroupBuilder:
    """Says how checkpoints are brought elsewhere, in a subclass."""

    def build(self, epoch: int, checkpoint_manager: Manager) -> TaskGroup:
        """The tasks that bring the checkpoint of an epoch elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} does not say how checkpoints are uploaded: write its build")


class Manager(Protocol):
    """What a `JobRunner` needs of whatever saves the blobs of its nodes (`netgrad.persist.checkpoints`)."""

    def set_params(self, nodes: list[str]) -> None: ...

    def get_resume_from_epoch_id(self, user_epoch: int | None) -> int | None: ...

    def init(self, nodes: list[str], retrieve_from_epoch: int | None) -> Any: ...

    def load(self, epoch: int) -> Any: ...

    def save(self, epoch: int) -> Any: ...

    def cp_accessible(self, epoch: int | None) -> bool: ...

    def write_checkpoint_metadata(self, epoch: int) -> None: ...

    def report_checkpoint_stats(self, action_name: str) -> None: ...

    def load_blobs_locally(self, nodes: list[str], blob_names: Sequence[str], epoch: int, session: Session) -> bool: ...


class JobRunner:
    """Runs a job, epoch after epoch, and saves its blobs after each.

    Args:
        job: the job.
        checkpoint_manager: saves and loads; None: nothing is saved.
        resume_from_epoch: the epoch whose checkpoint is loaded instead of running the job's ``init_group``.
        upload_task_group_builder: makes what runs after the last epoch, if given.
    """

    def __init__(self, job: Job, checkpoint_manager: Manager | None = None, resume_from_epoch: int | None = None,
                 upload_task_group_builder: UploadTaskGroupBuilder | None = None) -> None:
        self.job = job
        self.checkpoint_manager = checkpoint_manager
        self.resume_from_epoch = resume_from_epoch
        self.upload_task_group_builder = upload_task_group_builder

    def train(self, session: Session) -> int:
        """Runs the whole job; returns the number of its last epoch, counted from 1."""
        epoch = self._start(session)
        while True:
            epoch += 1
            log.info("epoch %d", epoch)
            session.run(self.job.epoch_group)
            stops = [bool(condition.fetch()) for condition in self.job.stop_conditions]
            if self.checkpoint_manager:
                self.save_checkpoints(epoch, session)
            if any(stops):
                break
        if self.upload_task_group_builder:
            session.run(self.upload_task_group_builder.build(epoch, self._manager()))
        session.run(self.job.download_group)
        session.run(self.job.exit_group)
        return epoch

    def _start(self, session: Session) -> int:
        """Makes the blobs, or loads them; returns the epoch that they are from."""
        manager = self.checkpoint_manager
        if manager:
            manager.set_params(nodes=self.job.nodes_to_checkpoint())
            self.resume_from_epoch = manager.get_resume_from_epoch_id(self.resume_from_epoch)
        resumed = self.resume_from_epoch
        if resumed is None:
            session.run(self.job.init_group)
        if manager:
            session.run(manager.init(self.job.nodes_to_checkpoint(), retrieve_from_epoch=resumed))
            if resumed is None:
                self.save_checkpoints(0, session)
            else:
                session.run(manager.load(resumed))
                manager.report_checkpoint_stats("checkpoint_load")
                log.info("resumed from epoch %d", resumed)
        return resumed or 0

    def load_blobs_from_checkpoints(self, blob_names: Sequence[str], epoch: int, session: Session) -> bool:
        """Loads some blobs of all nodes from the checkpoints of an epoch; whether these are all there.

        Raises:
            ValueError: the runner saves nothing.
        """
        manager = self._manager()
        found = manager.load_blobs_locally(self.job.nodes_to_checkpoint(), blob_names, epoch, session)
        manager.report_checkpoint_stats("checkpoint_partial_load")
        return found

    def save_checkpoints(self, epoch: int, session: Session) -> None:
        """Saves the blobs of all nodes. That it fails is logged, and no reason to end the job.

        Raises:
            ValueError: the runner saves nothing.
        """
        manager = self._manager()
        try:
            if not manager.cp_accessible(epoch=None):
                log.warning("the checkpoint of epoch %d is not saved: its place cannot be reached", epoch)
                return
            session.run(manager.save(epoch))
            manager.write_checkpoint_metadata(epoch)
            manager.report_checkpoint_stats("checkpoint_save")
        except Exception as error:
            log.warning("the checkpoint of epoch %d was not saved: %s", epoch, error)

    def _manager(self) -> Manager:
        if not self.checkpoint_manager:
            raise ValueError("the runner has no checkpoint_manager; give it one")
        return self.checkpoint_manager
