"""`BatchLRLoss`: the logistic loss of one label, with variations."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.graph.records import Scalar
from netgrad.proto.caffe2_pb2 import TensorProto
from netgrad.training.layers._losses import weighted
from netgrad.training.layers.base import ModelLayer
from netgrad.training.layers.checks import columns_named, require
from netgrad.training.layers.tags import Tags


class BatchLRLoss(ModelLayer):
    """The mean (or sum) over the batch of the cross entropy of a label, 0 or 1, given its logit.

    The input record has ``label`` (batch,) and ``logit`` (batch, 1); ``prediction``, the sigmoid of the logit,
    (batch, 1), where a variation needs it; and perhaps ``weight`` and ``log_variance`` (batch,). The losses L of
    examples become, in this order:

    - focal: (y (1 - p) + p (1 - y))^focal_gamma L (arXiv:1708.02002);
    - decayed: L times max(task_gamma^k, task_gamma_lb) in step k;
    - mixed with the Jensen-Shannon divergence of label and prediction: (1 - jsd_weight) L + jsd_weight JSD;
    - with a predicted log-variance s: (exp(-s) L + uncertainty_penalty s) / 2 (arXiv:1705.07115);
    - weighted.
    """

    def __init__(
        self, model: Any, input_record: Any, name: str = "batch_lr_loss", average_loss: bool = True,
        jsd_weight: float = 0.0, pos_label_target: float = 1.0, neg_label_target: float = 0.0,
        homotopy_weighting: bool = False, log_D_trick: bool = False, unjoined_lr_loss: bool = False,
        uncertainty_penalty: float = 1.0, focal_gamma: float = 0.0, stop_grad_in_focal_factor: bool = False,
        task_gamma: float = 1.0, task_gamma_lb: float = 0.1, **kwargs: Any,
    ) -> None:
        """Makes the layer.

        Args:
            average_loss: the mean over the batch; else the sum.
            jsd_weight: part of the divergence.
            pos_label_target, neg_label_target: what the labels 1 and 0 are replaced with.
            homotopy_weighting: the part of the divergence grows from 0 while training (as an inverse decay of the other
                part: half after a thousand million steps).
            log_D_trick, unjoined_lr_loss: other forms of the loss, see the operator SigmoidCrossEntropyWithLogits.
            focal_gamma: exponent of the focal factor.
            stop_grad_in_focal_factor: no gradient flows through that factor.
            task_gamma, task_gamma_lb: decay of the loss, and its lower bound; 1 for none.
        """
        super().__init__(model, name, input_record, **kwargs)
        mixed = jsd_weight > 0 or homotopy_weighting
        require(self, 0 <= jsd_weight <= 1, f"jsd_weight must be between 0 and 1, but is {jsd_weight}")
        needed = ["label", "logit"] + (["prediction"] if mixed or focal_gamma != 0 else [])
        columns_named(self, input_record, needed)
        require(self, 0 <= neg_label_target <= pos_label_target <= 1,
                "the targets must satisfy 0 <= neg_label_target <= pos_label_target <= 1, but are "
                f"{neg_label_target} and {pos_label_target}")
        require(self, not (log_D_trick and unjoined_lr_loss),
                "log_D_trick and unjoined_lr_loss exclude each other")
        require(self, uncertainty_penalty >= 0, f"uncertainty_penalty must not be negative, is {uncertainty_penalty}")
        self.average_loss = average_loss
        self.jsd_fuse = mixed
        self.homotopy_weighting = homotopy_weighting
        self.pos_label_target = pos_label_target
        self.neg_label_target = neg_label_target
        self.log_D_trick = log_D_trick
        self.unjoined_lr_loss = unjoined_lr_loss
        self.uncertainty_penalty = uncertainty_penalty
        self.focal_gamma = focal_gamma
        self.stop_grad_in_focal_factor = stop_grad_in_focal_factor
        if mixed:
            self._init_parts(jsd_weight)
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = Scalar(np.float32, self.get_next_blob_reference("output"))
        self.apply_exp_decay = task_gamma < 1.0
        if self.apply_exp_decay:
            self.task_gamma_cur = self._state("task_gamma_cur", 1.0)
            self.task_gamma = self._state("task_gamma", task_gamma)
            self.task_gamma_lb = self._state("task_gamma_lb", task_gamma_lb)

    def _state(self, what: str, value: float, dtype: int = TensorProto.FLOAT) -> Any:
        """A number that training changes, but no optimizer."""
        return self.create_param(
            param_name=f"{self.name}_{what}", shape=[1], initializer=("ConstantFill", {"value": value, "dtype": dtype}),
            optimizer=self.model.NoOptim,
        )

    def _init_parts(self, jsd_weight: float) -> None:
        if self.homotopy_weighting:
            self.mutex = self.create_param(param_name=f"{self.name}_mutex", shape=None, initializer=("CreateMutex",),
                                           optimizer=self.model.NoOptim)
            self.counter = self._state("counter", 0, TensorProto.INT64)
            self.xent_weight = self._state("xent_weight", 1.0)
            self.jsd_weight = self._state("jsd_weight", 0.0)
        else:
            self.jsd_weight = self.model.add_global_constant(f"{self.name}_jsd_weight", jsd_weight)
            self.xent_weight = self.model.add_global_constant(f"{self.name}_xent_weight", 1.0 - jsd_weight)

    def add_ops(self, net: Any) -> None:
        record = self.input_record
        label = self._label(net)
        loss = net.SigmoidCrossEntropyWithLogits(
            [record.logit(), label], net.NextScopedBlob("cross_entropy"), log_D_trick=self.log_D_trick,
            unjoined_lr_loss=self.unjoined_lr_loss,
        )
        if self.focal_gamma != 0:
            label = net.StopGradient([label], [net.NextScopedBlob("label_stop_gradient")])
            loss = self._focal(net, loss, label)
        if self.apply_exp_decay:
            net.Mul([self.task_gamma_cur, self.task_gamma], self.task_gamma_cur)
            factor = net.Max([self.task_gamma_cur, self.task_gamma_lb],
                             net.NextScopedBlob("task_gamma_cur_multiplier"))
            # the backward pass would need what the decay was before this step
            factor = net.StopGradient([factor], [net.NextScopedBlob("task_gamma_stop_gradient")])
            loss = net.Mul([loss, factor], net.NextScopedBlob("expdecayxent"))
        if self.jsd_fuse:
            divergence = net.BernoulliJSD([record.prediction(), label], net.NextScopedBlob("jsd"))
            if self.homotopy_weighting:
                self._update_parts(net)
            loss = net.WeightedSum([loss, self.xent_weight, divergence, self.jsd_weight], net.NextScopedBlob("loss"))
        if "log_variance" in record.fields:
            loss = self._uncertain(net, loss)
        loss = weighted(net, loss, record, "weighted_cross_entropy")
        (net.AveragedLoss if self.average_loss else net.ReduceFrontSum)(loss, self.output_schema.field_blobs())

    def _label(self, net: Any) -> Any:
        """The label as float, (batch, 1), with the targets in place of 0 and 1."""
        # always cast: columns that are declared as float32 hold integers in practice
        label = net.Cast(self.input_record.label(), net.NextScopedBlob("label_float32"), to=TensorProto.FLOAT)
        label = net.ExpandDims(label, net.NextScopedBlob("expanded_label"), dims=[1])
        if (self.neg_label_target, self.pos_label_target) == (0.0, 1.0):
            return label
        return net.StumpFunc(label, net.NextScopedBlob("smoothed_label"), threshold=0.5,
                             low_value=self.neg_label_target, high_value=self.pos_label_target)

    def _focal(self, net: Any, loss: Any, label: Any) -> Any:
        prediction = self.input_record.prediction()
        # y (1 - p) + p (1 - y) = y + p - 2 y p
        total = net.Add([prediction, label], net.NextScopedBlob("y_plus_p"))
        product = net.Mul([prediction, label], net.NextScopedBlob("yp"))
        twice = net.Scale(product, net.NextScopedBlob("two_yp"), scale=2.0)
        base = net.Sub([total, twice], net.NextScopedBlob("y_plus_p_sub_two_yp"))
        factor = net.Pow(base, net.NextScopedBlob("y_plus_p_sub_two_yp_power"), exponent=float(self.focal_gamma))
        if self.stop_grad_in_focal_factor:
            factor = net.StopGradient([factor], [net.NextScopedBlob("focal_factor_stop_gradient")])
        factor = net.FlattenToVec([factor], [net.NextScopedBlob("focal_factor")])  # (batch, 1), the losses are (batch,)
        return net.Mul([loss, factor], net.NextScopedBlob("focallossxent"))

    def _update_parts(self, net: Any) -> None:
        net.AtomicIter([self.mutex, self.counter], [self.counter])
        net.LearningRate([self.counter], [self.xent_weight], base_lr=1.0, policy="inv", gamma=1e-6, power=0.1)
        net.Sub([self.model.global_constants["ONE"], self.xent_weight], [self.jsd_weight])

    def _uncertain(self, net: Any, loss: Any) -> Any:
        log_variance = net.FlattenToVec([self.input_record.log_variance()], [net.NextScopedBlob("flat_log_variance")])
        exponent = net.Negative([log_variance], [net.NextScopedBlob("neg_log_variance")])
        # exp(88) is about the largest float32
        exponent = net.Clip([exponent], [net.NextScopedBlob("clipped_neg_log_variance")], max=88.0)
        precision = net.Exp([exponent], [net.NextScopedBlob("exp_neg_log_variance")])
        scaled = net.Mul([precision, loss], [net.NextScopedBlob("exp_neg_log_variance_loss")])
        penalty = net.Scale(log_variance, net.NextScopedBlob("penalized_unceratinty"),
                            scale=float(self.uncertainty_penalty))
        twice = net.Add([scaled, penalty], [net.NextScopedBlob("loss")])
        return net.Scale(twice, net.NextScopedBlob("loss"), scale=0.5)
