"""Learning-rate policies at the iterations where they turn. Expected values were computed by Caffe2 1.8.1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.graph.operator import CreateOperator as operator
from netgrad.runtime.errors import OperatorError
from netgrad.runtime.numeric import evaluate

WARMUP = {"start_warmup_multiplier": 0.1, "constant_warmup_num_iter": 10, "linear_warmup_num_iter": 10}

#: arguments, {iteration: rate} for base_lr 0.5
POLICIES: list[tuple[dict[str, Any], dict[int, float]]] = [
    ({"policy": "fixed"}, {0: 0.5, 100: 0.5}),
    ({"policy": "step", "stepsize": 10, "gamma": 0.5}, {9: 0.5, 10: 0.25, 40: 0.03125}),
    ({"policy": "exp", "gamma": 0.9}, {0: 0.5, 2: 0.405}),
    ({"policy": "gate", "multiplier_1": 0.3, "multiplier_2": 0.7, "num_iter": 10}, {9: 0.15, 10: 0.35}),
    ({"policy": "inv", "gamma": 0.1, "power": 0.75}, {0: 0.5, 10: 0.2973}),
    ({"policy": "poly", "max_iter": 50, "power": 2.0}, {10: 0.32, 100: 0.5}),
    ({"policy": "linearWarmup", "start_multiplier": 0.1, "num_iter": 20}, {0: 0.05, 10: 0.275, 20: 0.5}),
    ({"policy": "constantWarmup", "multiplier": 0.3, "num_iter": 10}, {9: 0.15, 10: 0.5}),
    ({"policy": "pieceWarmup", "m1": 0.2, "n1": 10, "m2": 0.6, "n2": 20, "m3": 0.9}, {9: 0.1, 10: 0.3, 20: 0.45}),
    ({"policy": "hill", "num_iter": 10, "start_multiplier": 0.1, "gamma": 0.05, "power": 0.9, "end_multiplier": 0.3},
     {5: 0.275, 10: 0.5, 20: 0.34713, 100: 0.15}),
    ({"policy": "alter", "active_first": 1, "active_period": 3, "inactive_period": 4}, {2: 0.5, 3: 0.0, 7: 0.5}),
    ({"policy": "alter", "active_first": 0, "active_period": 3, "inactive_period": 4}, {3: 0.0, 5: 0.5, 7: 0.0}),
    ({"policy": "slope", "num_iter_1": 10, "multiplier_1": 1.0, "num_iter_2": 20, "multiplier_2": 0.4},
     {10: 0.5, 15: 0.35, 20: 0.2}),
    # which Caffe2 leaves at 0.9 from iteration 10, and lets grow from 20
    ({"policy": "slope", "num_iter_1": 10, "multiplier_1": 0.4, "num_iter_2": 20, "multiplier_2": 0.9},
     {9: 0.2, 10: 0.2, 15: 0.325, 20: 0.45, 100: 0.45}),
    ({"policy": "cyclical", "max_lr": 0.9, "stepsize": 5, "decay": 0.9}, {5: 0.9, 10: 0.5, 15: 0.86, 31: 0.55832}),
    ({"policy": "cosine", "max_lr": 0.9, "min_lr": 0.1, "period": 10, "t_mult": 1.0, "lr_shrink": 0.8},
     {0: 0.45, 5: 0.25, 10: 0.36, 55: 0.08192}),
    ({"policy": "cosine", "max_lr": 0.9, "min_lr": 0.1, "period": 5, "t_mult": 2.0, "lr_shrink": 0.8},
     {5: 0.36, 15: 0.288, 40: 0.22261}),
    ({"policy": "constantThenLinearWarmup", **WARMUP}, {9: 0.05, 15: 0.275, 20: 0.5}),
    ({"policy": "compositeCyclical", **WARMUP, "cyclical_max_lr": 0.8, "cyclical_step_size": 5, "cyclical_decay": 0.9},
     {9: 0.05, 15: 0.275, 25: 0.8, 31: 0.554}),
    ({"policy": "compositeCosine", **WARMUP, "cosine_max_lr": 0.8, "cosine_min_lr": 0.05, "cosine_period": 10,
      "cosine_t_mult": 1.0, "cosine_lr_shrink": 0.9}, {15: 0.275, 20: 0.4, 25: 0.2125, 100: 0.17219}),
    ({"policy": "composite", "sub_policy_num_iters": [5, 10, 20], "sub_policy_0_policy": "exp",
      "sub_policy_0_gamma": 0.9, "sub_policy_0_lr_scale": 2.0, "sub_policy_1_policy": "step",
      "sub_policy_1_stepsize": 3, "sub_policy_1_gamma": 0.5, "sub_policy_2_policy": "fixed",
      "sub_policy_2_lr_scale": 0.5}, {1: 0.9, 5: 0.59049, 7: 0.125, 15: 0.015625, 19: 0.25, 100: 0.25}),
]


@pytest.mark.parametrize(("arguments", "rates"), POLICIES)
def test_policy(arguments: dict[str, Any], rates: dict[int, float]) -> None:
    for t, rate in rates.items():
        op = operator("LearningRate", ["t"], ["lr"], base_lr=0.5, **arguments)
        found = evaluate(op, {"t": np.array([t])}, backend="numpy")["lr"]
        assert found.dtype == np.float32 and found.shape == ()
        np.testing.assert_allclose(found, rate, rtol=1e-4, atol=5e-6, err_msg=f"iteration {t}")


@pytest.mark.parametrize(("arguments", "words"), [
    ({"policy": "fixed"}, "base_lr"), ({"base_lr": 0.1}, "policy"), ({"base_lr": 0.1, "policy": "steps"}, "'steps'"),
    ({"base_lr": 0.1, "policy": "step", "gamma": 0.5}, "stepsize"),
    ({"base_lr": 0.1, "policy": "composite"}, "sub_policy_num_iters"),
])
def test_incomplete_policies_are_refused(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OperatorError, match=words):
        evaluate(operator("LearningRate", ["t"], ["lr"], **arguments), {"t": np.array([0])}, backend="numpy")
