"""Caffe2's training modules: every name that they offer is there, and helpers cause no warnings."""

from __future__ import annotations

import importlib
import warnings

import pytest

MODULES = """
    cnn model_helper normalizer normalizer_context optimizer optimizer_context regularizer regularizer_context
    modifier_context modeling.compute_histogram_for_blobs modeling.compute_norm_for_blobs
    modeling.compute_statistics_for_blobs modeling.get_entry_from_blobs modeling.gradient_clipping
    modeling.initializers modeling.net_modifier modeling.parameter_info modeling.parameter_sharing helpers.algebra
    helpers.arg_scope helpers.array_helpers helpers.control_ops helpers.conv helpers.db_input helpers.dropout
    helpers.elementwise_linear helpers.fc helpers.nonlinearity helpers.normalization helpers.pooling
    helpers.quantization helpers.tools helpers.train""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", MODULES)
def test_every_name_of_a_module_leads_to_an_object(name):
    module = importlib.import_module(f"caffe2.python.{name}")
    for attribute, (owner, _) in module.__dict__["_owners"].items():
        if owner.startswith("netgrad.training"):
            assert getattr(module, attribute) is not None


def test_layers_made_by_brew_warn_of_nothing():
    from caffe2.python import brew, model_helper

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_helper.ModelHelper("quiet")
        brew.fc(model, brew.max_pool(model, brew.conv(model, "x", "c", 1, 2, kernel=3), "p", kernel=2), "f", 8, 2)
        brew.dropout(model, brew.relu(model, "f", "f"), "d", is_test=0)
        brew.softmax(model, "d", "s")


def test_brew_has_all_helpers_of_caffe2():
    from caffe2.python import brew

    names = """
        accuracy add_weight_decay arg_min arg_scope average_pool batch_mat_mul concat cond conv conv_nd conv_transpose
        db_input depth_concat dropout elementwise_linear fc fc_decomp fc_prune fc_sparse
        fused_8bit_rowwise_quantized_to_float group_conv group_conv_deprecated image_input instance_norm iter
        layer_norm loop lrn mat_mul max_pool max_pool_with_index moments_with_running_stats packed_fc prelu reduce_sum
        relu softmax sparse_lengths_sum_4bit_rowwise_sparse spatial_bn spatial_gn sub sum tanh transpose
        video_input""".split()  # noqa: SIM905
    assert len(names) == 45
    assert [name for name in names if not brew.has_helper(name) or not callable(getattr(brew, name))] == []


def test_brew_is_one_object_under_both_names():
    import caffe2.python.brew as facade
    from netgrad.training import brew

    assert facade.has_helper("fc") and facade.fc.__doc__ == brew.fc.__doc__
    assert "conv" in dir(facade) and "conv" in dir(brew)
    with pytest.raises(AttributeError, match="no helper nonsense"):
        _ = facade.nonsense
