"""Caffe2's `helpers.algebra`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.helpers.elementwise": """
            arg_min batch_mat_mul mat_mul reduce_sum sparse_lengths_sum_4bit_rowwise_sparse sub sum transpose"""
    },
)
