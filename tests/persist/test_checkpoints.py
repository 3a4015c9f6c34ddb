"""Jobs that are saved after each epoch go on from any of them; numbers and names are Caffe2's."""

import logging
import os

import pytest

from caffe2.python import core, workspace
from caffe2.python.checkpoint import (
    CheckpointManager,
    Job,
    JobRunner,
    MultiNodeCheckpointManager,
    UploadTaskGroupBuilder,
    db_name,
    epoch_limiter,
)
from caffe2.python.net_builder import ops
from caffe2.python.session import LocalSession
from caffe2.python.task import Cluster, Node, Task, TaskGroup

EPOCHS = 4


class Records:
    """Keeps a record of checkpoints."""

    def __init__(self, last=None):
        self.log = []
        self.last = last

    def write(self, epoch):
        self.log.append(f"wrote {epoch}")

    def last_epoch(self, user_epoch=None):
        return self.last if user_epoch is None else user_epoch

    def set_params(self, **params):
        self.log.append(f"nodes {params['node_names']}")

    def cp_accessible(self, epoch=None):
        return True

    def report(self, action, stats):
        assert all(nanoseconds > 0 for nanoseconds in stats.values())
        self.log.append(f"{action} {sorted(map(os.path.basename, stats))}")


class Place:
    """A folder of checkpoints, and one workspace after another to train in."""

    def __init__(self, folder, make, node="trainer_0"):
        self.folder, self.make, self.node = folder, make, node
        with Cluster():
            with Job() as self.job, Node("trainer_0"):
                with Job.current().init_group, Task():
                    total, step = ops.Const([100]), ops.Const([3])
                with Task():
                    ops.Add([total, step], [total])
                epoch_limiter(Job.current(), EPOCHS)
            self.fetcher = Task(step=core.Net("empty"), outputs=[total])
        self.blob = str(total)
        self.job.compile(LocalSession)

    def session(self):
        return LocalSession(workspace.C.Workspace())

    def manager(self, records=None):
        return self.make(str(self.folder), records)

    def total(self, session):
        session.run(self.fetcher)
        return self.fetcher.outputs()[0].fetch().tolist()


@pytest.fixture(params=["one", "several"])
def place(request, ws, tmp_path):
    if request.param == "one":
        return Place(tmp_path, lambda folder, records: CheckpointManager(folder, "a node", "minidb", records), "a node")
    return Place(tmp_path, lambda folder, records: MultiNodeCheckpointManager(folder, "minidb", records))


def test_a_job_is_saved_after_each_epoch_and_resumed_from_any(place):
    session, records = place.session(), Records()
    assert JobRunner(place.job, place.manager(records)).train(session) == EPOCHS
    assert place.total(session) == [112]
    assert sorted(os.listdir(place.folder)) == [f"{place.node}.{epoch}" for epoch in range(EPOCHS + 1)]
    assert records.log == [f"nodes ['{place.node}']"] + [
        line for epoch in range(EPOCHS + 1)
        for line in (f"wrote {epoch}", f"checkpoint_save ['{place.node}.{epoch}']")]
    for epoch in range(EPOCHS):
        session = place.session()
        assert JobRunner(place.job, place.manager(), resume_from_epoch=epoch).train(session) == EPOCHS
        assert place.total(session) == [112]
    session, manager = place.session(), place.manager(Records(last=2))
    assert JobRunner(place.job, manager).train(session) == EPOCHS
    for epoch in range(EPOCHS + 1):
        session.run(manager.load(epoch))
        assert place.total(session) == [100 + 3 * epoch]


def test_some_blobs_are_loaded_from_all_nodes(ws, tmp_path):
    place = Place(tmp_path, lambda folder, records: MultiNodeCheckpointManager(folder, "minidb", records))
    JobRunner(place.job, place.manager()).train(place.session())
    session = place.session()
    runner = JobRunner(place.job, place.manager())
    blob = place.blob
    assert runner.load_blobs_from_checkpoints([blob, "no such blob"], 2, session)
    assert session._ws.fetch_blob(blob).tolist() == [106]
    assert not runner.load_blobs_from_checkpoints([blob], 9, session)
    manager = runner.checkpoint_manager
    assert manager.get_ckpt_db_name("trainer_0", 5) == db_name(5, "trainer_0", str(tmp_path))
    assert manager.get_ckpt_db_name("another", 5) is None
    with pytest.raises(AssertionError, match="use another manager"):
        manager.init(["other node"])


def test_a_checkpoint_that_cannot_be_saved_does_not_end_the_job(place, caplog):
    place.folder = place.folder / "not there"
    session = place.session()
    with caplog.at_level(logging.WARNING, "netgrad"):
        assert JobRunner(place.job, place.manager()).train(session) == EPOCHS
    assert place.total(session) == [112]
    assert sum("was not saved" in message and "not there" in message for message in caplog.messages) == EPOCHS + 1


def test_checkpoints_are_uploaded_after_the_last_epoch(place):
    seen = []

    class Upload(UploadTaskGroupBuilder):
        def build(self, epoch, checkpoint_manager):
            seen.append((epoch, sorted(os.listdir(place.folder))[-1]))
            return TaskGroup()

    JobRunner(place.job, place.manager(), upload_task_group_builder=Upload()).train(place.session())
    assert seen == [(EPOCHS, f"{place.node}.{EPOCHS}")]
    with pytest.raises(NotImplementedError, match="Builder does not say"):
        UploadTaskGroupBuilder().build(1, None)


def test_what_is_asked_too_early_or_of_nobody(ws, tmp_path):
    with pytest.raises(AssertionError, match="call init first"):
        MultiNodeCheckpointManager(str(tmp_path), "minidb").save(1)
    with pytest.raises(AssertionError, match="run the task that init makes"):
        CheckpointManager(str(tmp_path), "n", "minidb").blob_list()
    with pytest.raises(AssertionError, match="there are 2 nodes"):
        CheckpointManager(str(tmp_path), "n", "minidb").init(["a", "b"])
    with pytest.raises(ValueError, match="no checkpoint_manager"):
        JobRunner(Job()).save_checkpoints(1, None)
    with pytest.raises(AssertionError, match="a TaskOutput or a BlobReference, not a str"):
        Job().add_stop_condition("blob")
