"""Caffe2's `regularizer`."""

from netgrad.facade import facade

facade(
    __name__,
    {
        "netgrad.training.regularizers": """
            BoundedGradientProjection ConstantNorm ElasticNet ElasticNetL1NormTrimmed GroupL1Norm L0ApproxNorm L1Norm
            L1NormTrimmed L2Norm LogBarrier LpNorm MaxNorm RegularizationBy Regularizer SparseL1Norm SparseL2Norm
            SparseLpNorm"""
    },
    {"core": "caffe2.python.core", "utils": "caffe2.python.utils"},
)
