"""`PairwiseSimilarity`: products of all pairs of embeddings."""

from __future__ import annotations

from typing import Any

from netgrad.graph.records import Scalar
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import column, describe, require, struct

_FUNCTIONS = ("dot", "cosine_similarity")


class PairwiseSimilarity(ModelLayer):
    """All products x_i . y_j, flattened to (batch, output_dim), or those at ``indices_to_gather``.

    Its input record has ``x_embeddings`` (batch, n, size) and ``y_embeddings`` (batch, m, size), or ``all_embeddings``
    for both, and perhaps ``indices_to_gather``, int (chosen,).
    """

    def __init__(
        self, model: Any, input_record: Any, output_dim: int, pairwise_similarity_func: str = "dot",
        name: str = "pairwise_similarity", **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            output_dim: how many products there are per row, n m or the number of indices.
            pairwise_similarity_func: "dot" or "cosine_similarity", for which the embeddings are normalized along
                their dimension 1.
        """
        super().__init__(model, name, input_record, **kwargs)
        struct(self, input_record)
        both = "x_embeddings" in input_record and "y_embeddings" in input_record
        require(self, ("all_embeddings" in input_record) != both,
                "the input record must have either all_embeddings, or x_embeddings and y_embeddings, but is "
                f"{describe(input_record)}")
        if pairwise_similarity_func not in _FUNCTIONS:
            raise NotImplementedError(
                f"layer {self.name!r}: pairwise_similarity_func is {' or '.join(_FUNCTIONS)}, "
                f"not {pairwise_similarity_func!r}")
        self.pairwise_similarity_func = pairwise_similarity_func
        names = ("x_embeddings", "y_embeddings") if both else ("all_embeddings", "all_embeddings")
        self.x_embeddings, self.y_embeddings = (
            column(self, input_record[field], f"the field {field}") for field in names
        )
        self.indices_to_gather = None
        if "indices_to_gather" in input_record:
            self.indices_to_gather = column(self, input_record["indices_to_gather"], "the field indices_to_gather")
        self.output_schema = Scalar((self.x_embeddings.dtype.base, (output_dim,)),
                                    self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        x, y = self.x_embeddings(), self.y_embeddings()
        if self.pairwise_similarity_func == "cosine_similarity":
            x, y = net.Normalize(x, axis=1), net.Normalize(y, axis=1)
        products = net.BatchMatMul([x, y], [self.get_next_blob_reference(x + "_matmul")], trans_b=1)
        if self.indices_to_gather is None:
            net.Flatten(products, self.output_schema())
        else:
            flat = net.Flatten(products, products + "_flatten")
            net.BatchGather([flat, self.indices_to_gather()], self.output_schema())
