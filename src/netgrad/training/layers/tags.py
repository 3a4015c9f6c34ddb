"""Tags of layers: in which nets they belong, and hints for whoever distributes a model."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from netgrad.graph.context import DefaultManaged

P = ParamSpec("P")
R = TypeVar("R")


class TagContext(DefaultManaged):
    """The tags that layers made now receive, outermost block first."""

    def __init__(self, tags: list[str] | None = None) -> None:
        self.tags: list[str] = tags or []

    def add_tags(self, tags: list[str]) -> None:
        self.tags.extend(tags)

    def remove_tags(self, tags: list[str]) -> None:
        """Takes away the tags that were added last.

        Raises:
            AssertionError: others were added last.
        """
        first = len(self.tags) - len(tags)
        if first < 0 or self.tags[first:] != tags:
            raise AssertionError(f"the tags {tags} were not added last; active are {self.tags}")
        del self.tags[first:]


class Tags:
    """``with Tags([Tags.CPU_ONLY]):`` - layers made inside have the tags. It also decorates a function.

    ``EXCLUDE_FROM_...`` keep a layer out of one kind of net; ``TRAIN_ONLY``, ``EVAL_ONLY`` and ``PREDICTION_ONLY`` are
    the lists of them that leave one kind.
    """

    EXCLUDE_FROM_TRAIN = "exclude_from_train"
    EXCLUDE_FROM_EVAL = "exclude_from_eval"
    EXCLUDE_FROM_PREDICTION = "exclude_from_prediction"
    EXCLUDE_FROM_ACCUMULATE_PRED = "exclude_from_accumulate_pred"
    PREPROCESSING = "preprocessing"
    HANDLE_AS_SPARSE_LAYER = "handle_as_sparse_layer"
    PREFER_GPU = "prefer_gpu"
    CPU_ONLY = "cpu_only"
    LOCAL = "local"

    #: the parameter is a table that may be cut up over servers
    SPARSE_SHARDED = "sparse_sharded"
    #: the parameters stay together on one machine
    SPARSE_DONT_SHARD = "sparse_dont_shard"
    #: prefix: parameters of one component stay together
    COMPONENT = "component:"
    PIPELINE = "pipeline:"
    #: dense parameters that several trainers update without locks
    HOGWILD_DENSE = "hogwild_dense"
    #: prefix of what goes into ``DeviceOption.extra_info``
    EXTRA_INFO = "extra_info:"
    #: a tag that says nothing, for ``with Tags(tag if condition else Tags.EMPTY_TAG)``
    EMPTY_TAG = "empty_tag"

    DT_TAGS = (SPARSE_SHARDED, SPARSE_DONT_SHARD, COMPONENT, HOGWILD_DENSE)

    #: the layer gives prediction nets another input record
    PREDICTION_SCHEMA = "prediction_schema"
    FEATURE_TRANSFORM = "feature_transform"
    FEATURE_TRANSFORM_SCHEMA = "feature_transform_schema"

    TRAIN_ONLY = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]
    EVAL_ONLY = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_ACCUMULATE_PRED]
    PREDICTION_ONLY = [EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]

    def __init__(self, tags: str | list[str]) -> None:
        self.tags = tags if isinstance(tags, list) else [tags]

    def __enter__(self) -> Self:
        TagContext.current().add_tags(self.tags)
        return self

    def __exit__(self, *error: object) -> None:
        TagContext.current().remove_tags(self.tags)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def tagged(*args: Any, **kwargs: Any) -> R:
            with self:
                return function(*args, **kwargs)

        return tagged
