"""Caffe2's `attention`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.recurrent.attention": """
        AttentionType apply_dot_attention apply_recurrent_attention apply_regular_attention
        apply_soft_coverage_attention s""",
}, {"brew": "caffe2.python.brew"})
