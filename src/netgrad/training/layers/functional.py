"""`Functional`: a layer of a function that writes operators."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.graph import scope
from netgrad.graph.net import Net
from netgrad.graph.record_values import InitEmptyRecord, NewRecord, dtype_for_core_type
from netgrad.graph.records import Field, RawTuple, Struct, as_record
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import require

log = logging.getLogger(__name__)


class Functional(ModelLayer):
    """``function(net, input_record, output_record, **kwargs)``, called for every net that is generated.

    The outputs' types and shapes are inferred: the function is called once with inputs that have no rows.
    """

    def __init__(
        self, model: Any, input_record: Any, output_names_or_num: Any, function: Callable[..., Any],
        name: str = "functional", output_dtypes: Any = None, tags: Any = None, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            input_record: a record, or what `as_record` takes: a blob, a list or dictionary of blobs.
            output_names_or_num: how many columns the output has, or a name, or a list of names, or a record. The
                output is a Scalar for 1 or one name, else a Struct, ``field_0`` and so on where there are no names.
            function: what writes the operators.
            output_dtypes: types of the columns, or one for all, where they are not to be inferred.
            **kwargs: for the function.
        """
        super().__init__(model, name, as_record(input_record), tags=tags, **kwargs)
        self._function = function
        self._kwargs = self.kwargs
        if isinstance(output_names_or_num, Field):
            self.output_schema = output_names_or_num.clone(keep_blobs=True)
            return
        several = isinstance(output_names_or_num, list) or (
            isinstance(output_names_or_num, int) and output_names_or_num != 1
        )
        if isinstance(output_names_or_num, int):
            wanted = RawTuple(output_names_or_num)
        else:
            names = output_names_or_num if several else [output_names_or_num]
            wanted = Struct(*[(output, np.void) for output in names])
        with scope.NameScope(self.name, reset=True):
            record = NewRecord(model.net, wanted)
        self.output_schema = record if several else record[0]
        columns = self._output_schema.all_scalars()
        if output_dtypes is None:
            self._infer_types(columns)
            return
        dtypes = output_dtypes if isinstance(output_dtypes, list) else [output_dtypes] * len(columns)
        require(self, len(dtypes) == len(columns),
                f"output_dtypes has {len(dtypes)} types for {len(columns)} columns")
        for column, dtype in zip(columns, dtypes, strict=True):
            column.set_type(dtype)

    def _infer_types(self, columns: list[Any]) -> None:
        from netgrad.runtime.inference import InferShapesAndTypes

        net = Net("types_of_functional_layer")
        try:
            InitEmptyRecord(net, self.input_record, enforce_types=True)
        except TypeError as error:  # an input of unknown type
            self._unknown(columns, str(error))
            return
        self._function(net, self.input_record, self._output_schema, **self._kwargs)
        shapes, types = InferShapesAndTypes([net], {})
        unknown = []
        for column in columns:
            blob = str(column())
            shape = shapes.get(blob)
            # an output that is no number has the batch first: no rows here, as those of the inputs
            if shape is None or blob not in types or (shape and shape[0] != 0) or -1 in shape:
                unknown.append(column)
                continue
            try:
                column.set_type((dtype_for_core_type(types[blob]), tuple(shape[1:])))
            except TypeError:
                unknown.append(column)
        if unknown:
            self._unknown(unknown, "the operators do not say them for inputs without rows")

    def _unknown(self, columns: list[Any], why: str) -> None:
        log.warning("layer %s: type and shape of %s are not known (%s); output_dtypes= can say them", self.name,
                    ", ".join(str(column()) for column in columns), why)

    def add_ops(self, net: Any) -> None:
        self._function(net, self.input_record, self.output_schema, **self._kwargs)
