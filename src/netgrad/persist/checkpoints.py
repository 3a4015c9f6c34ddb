"""Checkpoints of jobs: the blobs of each node in a database, one for every epoch."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.control.net_builder import ops
from netgrad.control.session import Session
from netgrad.control.task import Node, Task, TaskGroup, TaskOutput, WorkspaceType, final_output
from netgrad.graph.net import Net

log = logging.getLogger("netgrad")


def get_ckpt_filename(node_name: str, epoch: int) -> str:
    return f"{node_name}.{epoch}"


def db_name(epoch: int, node_name: str, db_prefix: str, path_prefix: str | None = None) -> str:
    """The path of a node's checkpoint: in the folder ``db_prefix``, unless a beginning of the path is given."""
    name = get_ckpt_filename(node_name, epoch)
    return path_prefix + name if path_prefix else os.path.join(db_prefix, name)


class _Manager:
    """What both managers do through whoever keeps a record of checkpoints (``metadata_handler``), if anybody does."""

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any) -> None:
        self._db_prefix = db_prefix
        self._db_type = db_type
        self._metadata_handler = metadata_handler
        self._path_prefix: str | None = None
        self._path_type: str | None = None

    def write_checkpoint_metadata(self, epoch: int) -> None:
        """Has it recorded that an epoch's checkpoint is there."""
        if self._metadata_handler is not None:
            self._metadata_handler.write(epoch=epoch)

    def get_resume_from_epoch_id(self, user_epoch: int | None = None) -> int | None:
        """The epoch to go on from; the user's, where no record says otherwise."""
        if self._metadata_handler is None:
            return user_epoch
        last: int | None = self._metadata_handler.last_epoch(user_epoch=user_epoch)
        return last

    def cp_accessible(self, epoch: int | None = None) -> bool:
        """Whether a checkpoint can be reached; with None, the place of all of them."""
        return True if self._metadata_handler is None else self._metadata_handler.cp_accessible(epoch)

    def _set_params(self, node_names: list[str], path_prefix: str | None, path_type: str | None) -> None:
        self._path_prefix = path_prefix or self._path_prefix
        self._path_type = path_type or self._path_type
        if self._metadata_handler:
            self._metadata_handler.set_params(db_prefix=self._db_prefix, db_type=self._db_type, node_names=node_names,
                                              path_prefix=self._path_prefix, path_type=self._path_type)


class CheckpointManager(_Manager):
    """Saves and loads the blobs of one node: makes the tasks that do.

    Args:
        db_prefix: the folder of the databases.
        node_name: begins their names.
        db_type: their kind.
        metadata_handler: keeps a record of checkpoints: ``write``, ``last_epoch``, ``set_params``, ``cp_accessible``
            and ``report``.
    """

    BLOB_NAMES = "blob_names"

    def __init__(self, db_prefix: str, node_name: str, db_type: str, metadata_handler: Any = None) -> None:
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_name = node_name
        self._net = Net("!!checkpoint_mngr")
        self._blob_names = self._net.AddExternalInput(self.BLOB_NAMES)
        self._names_output: TaskOutput | None = None
        self._current_db_name: str | None = None
        self._current_checkpoint_duration: TaskOutput | None = None

    def init(self, nodes: Sequence[Any] | None = None, retrieve_from_epoch: int | None = None,
             path_prefix: str | None = None, path_type: str | None = None) -> Task:
        """The task, run once, that finds which blobs are to be saved: those that there are, or were in an epoch.

        Raises:
            AssertionError: there are several nodes.
        """
        if nodes is not None and len(nodes) != 1:
            raise AssertionError(f"there are {len(nodes)} nodes; use a MultiNodeCheckpointManager")
        with Task(outputs=[self._blob_names]) as task:
            if retrieve_from_epoch is None:
                ops.GetAllBlobNames([], self._blob_names, include_shared=False)
            else:
                ops.Load([], self._blob_names, db=self._path(retrieve_from_epoch, path_prefix),
                         db_type=path_type or self._db_type, absolute_path=True, keep_device=True)
        self._names_output = task.outputs()[0]
        return task

    def blob_list(self) -> list[Any]:
        """The blobs to be saved; raises `AssertionError` before the task of `init` has run."""
        if self._names_output is None:
            raise AssertionError("which blobs are to be saved is not known yet; run the task that init makes first")
        names: list[Any] = self._names_output.fetch().tolist()
        return names

    def _path(self, epoch: int, path_prefix: str | None = None) -> str:
        return db_name(epoch, self._node_name, self._db_prefix, path_prefix)

    def _timed_task(self, cp_op_name: str, add_op: Callable[[], Any]) -> Task:
        """A task that also takes the time."""
        with Task(name=cp_op_name) as task:
            with ops.task_init():
                timer = ops.TimerBegin([], counter_name=self._node_name)
            add_op()
            with ops.task_exit():
                duration = ops.TimerGetAndEnd(timer)
            self._current_checkpoint_duration = final_output(duration)
        return task

    def collect_checkpoint_stats(self, stats: dict[str, Any]) -> None:
        """Adds the nanoseconds that the last task took, by its database."""
        if self._current_db_name and self._current_checkpoint_duration:
            stats[self._current_db_name] = self._current_checkpoint_duration.fetch()[0]
        else:
            log.info("nothing was saved or loaded for %s yet", self._node_name)

    def report_checkpoint_stats(self, action_name: str) -> None:
        """Has it recorded how long the last task took."""
        stats: dict[str, Any] = {}
        self.collect_checkpoint_stats(stats)
        if self._metadata_handler:
            self._metadata_handler.report(action_name, stats)

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> Task:
        """The task that loads the checkpoint of an epoch."""
        path = self._current_db_name = self._path(epoch, path_prefix)
        return self._timed_task("checkpoint_load", lambda: ops.Load(
            [], self.blob_list(), db=path, db_type=path_type or self._db_type, absolute_path=True, keep_device=True))

    def load_blobs_from_checkpoint(self, blob_names: Sequence[Any], epoch: int) -> Task:
        """The task that loads those of some blobs that are in the checkpoint of an epoch."""
        path = self._current_db_name = self._path(epoch)
        return self._timed_task("checkpoint_partial_load", lambda: ops.Load(
            [], blob_names, db=path, db_type=self._db_type, absolute_path=True, allow_incomplete=True))

    def check_db_exists(self, epoch: int) -> Task:
        """The task whose output says whether there is a checkpoint of an epoch."""
        with Task() as task:
            existence = ops.Const(False)
            ops.DBExists([], [existence], db_name=self._path(epoch), db_type=self._db_type, absolute_path=True)
            task.add_output(existence)
        return task

    def save(self, epoch: int) -> Task:
        """The task that saves the checkpoint of an epoch."""
        path = self._current_db_name = self._path(epoch)
        return self._timed_task("checkpoint_save", lambda: ops.Save(
            self.blob_list(), [], db=path, db_type=self._db_type, absolute_path=True))

    def set_params(self, nodes: Sequence[Any], path_prefix: str | None = None, path_type: str | None = None) -> None:
        """Says where checkpoints are, to whoever keeps a record of them."""
        self._set_params([str(self._node_name)], path_prefix, path_type)


class MultiNodeCheckpointManager(_Manager):
    """Saves and loads the blobs of several nodes: makes groups of tasks, one on each.

    Args:
        db_prefix: the folder of the databases, whose names begin with those of the nodes.
        db_type: their kind.
        metadata_handler: keeps a record of checkpoints; see `CheckpointManager`.
    """

    def __init__(self, db_prefix: str, db_type: str, metadata_handler: Any = None) -> None:
        super().__init__(db_prefix, db_type, metadata_handler)
        self._node_managers: list[tuple[Any, CheckpointManager]] | None = None

    def _managers(self, nodes: Sequence[Any]) -> bool:
        """Makes a manager for each node; whether that had to be done."""
        if self._node_managers is not None:
            known = [node for node, _ in self._node_managers]
            if known != list(nodes):
                raise AssertionError(f"the nodes were {known}, and are {list(nodes)} now; use another manager")
            return False
        self._node_managers = []
        for node in nodes:
            with Node(node):
                self._node_managers.append((node, CheckpointManager(self._db_prefix, str(node), self._db_type)))
        return True

    def _known(self) -> list[tuple[Any, CheckpointManager]]:
        if self._node_managers is None:
            raise AssertionError("which nodes there are is not known yet; call init first")
        return self._node_managers

    def _task_group(self, make: Callable[[CheckpointManager], Any]) -> TaskGroup:
        managers = self._known()
        with TaskGroup(WorkspaceType.GLOBAL) as group:
            for node, manager in managers:
                with Node(node):
                    make(manager)
        return group

    def init(self, nodes: Sequence[Any], retrieve_from_epoch: int | None = None, path_prefix: str | None = None,
             path_type: str | None = None) -> TaskGroup:
        """The tasks, run once, that find which blobs of the nodes are to be saved; none when it is called again."""
        if not self._managers(nodes):
            return TaskGroup(WorkspaceType.GLOBAL)
        return self._task_group(lambda manager: manager.init(None, retrieve_from_epoch, path_prefix, path_type))

    def load(self, epoch: int, path_prefix: str | None = None, path_type: str | None = None) -> TaskGroup:
        """The tasks that load the checkpoints of an epoch."""
        return self._task_group(lambda manager: manager.load(epoch, path_prefix, path_type))

    def save(self, epoch: int) -> TaskGroup:
        """The tasks that save the checkpoints of an epoch."""
        return self._task_group(lambda manager: manager.save(epoch))

    def load_blobs_locally(self, nodes: Sequence[Any], blob_names: Sequence[Any], epoch: int,
                           session: Session) -> bool:
        """Loads those of some blobs that are in the checkpoints of all nodes into the session's workspace.

        Returns:
            Whether every node has a checkpoint of that epoch; where one has not, those before it are loaded.
        """
        self._managers(nodes)
        for _, manager in self._known():
            exists = manager.check_db_exists(epoch)
            session.run(exists)
            if not exists.outputs()[0].fetch():
                log.info("there is no checkpoint %s", manager._path(epoch))
                return False
            session.run(manager.load_blobs_from_checkpoint(blob_names, epoch))
        return True

    def get_ckpt_db_name(self, node_name: str, epoch: int) -> str | None:
        """The path of a node's checkpoint; None where there is no such node."""
        return next((manager._path(epoch) for node, manager in self._known() if str(node) == node_name), None)

    def report_checkpoint_stats(self, action_name: str) -> None:
        """Has it recorded how long the last tasks took, by their databases."""
        stats: dict[str, Any] = {}
        for _, manager in self._known():
            manager.collect_checkpoint_stats(stats)
        if self._metadata_handler:
            self._metadata_handler.report(action_name, stats)

    def set_params(self, nodes: Sequence[Any], path_prefix: str | None = None, path_type: str | None = None) -> None:
        """Says where checkpoints are, to whoever keeps a record of them."""
        self._set_params([str(node) for node in nodes], path_prefix, path_type)
