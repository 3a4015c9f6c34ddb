"""The learning rate as a function of the iteration: base_lr times what a policy says."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from netgrad.graph.arguments import Bool, Float, Int, Ints, Str
from netgrad.graph.declaration import In, Operator, Out
from netgrad.graph.example import Example, Tensor
from netgrad.graph.rules import no_gradient
from netgrad.graph.shapes import scalar
from netgrad.ops._arrays import one_number

#: iteration -> factor of base_lr
Policy = Callable[[int], float]
#: (name, default) -> the argument's value
Get = Callable[[str, Any], Any]


def _positive(get: Get, name: str, default: int) -> int:
    value = int(get(name, default))
    if value <= 0:
        raise ValueError(f"argument {name!r} of a learning rate policy must be positive, found {value}; give it")
    return value


def _power(base: float, exponent: float) -> float:
    """The real power; not a number where there is none."""
    return math.nan if base < 0 and exponent != int(exponent) else math.pow(base, exponent)


def fixed(get: Get) -> Policy:
    return lambda t: 1.0


def step(get: Get) -> Policy:
    """gamma to the number of whole steps."""
    gamma, size = get("gamma", 0.0), _positive(get, "stepsize", 0)
    return lambda t: _power(gamma, t // size)


def exponential(get: Get) -> Policy:
    gamma = get("gamma", 0.0)
    return lambda t: _power(gamma, t)


def inverse(get: Get) -> Policy:
    gamma, power = get("gamma", 0.0), get("power", 0.0)
    return lambda t: _power(1 + gamma * t, -power)


def polynomial(get: Get) -> Policy:
    """(1 - t / max_iter) to the power; meant for t up to max_iter."""
    power, last = get("power", 0.0), _positive(get, "max_iter", -1)
    return lambda t: _power(1 - t / last, power)


def gate(get: Get) -> Policy:
    """multiplier_1 before iteration num_iter, then multiplier_2."""
    before, after, end = get("multiplier_1", 1.0), get("multiplier_2", 1.0), get("num_iter", 0)
    return lambda t: before if t < end else after


def alter(get: Get) -> Policy:
    """On for active_period, off for inactive_period, and so on; off first unless active_first."""
    on, off = _positive(get, "active_period", -1), _positive(get, "inactive_period", -1)
    on_first = bool(get("active_first", 1))
    return lambda t: float((t % (on + off) < (on if on_first else off)) == on_first)


def linear_warmup(get: Get) -> Policy:
    start, end = get("start_multiplier", 0.0), get("num_iter", 0)
    return lambda t: 1.0 if t >= end else start + (1 - start) * t / end


def constant_warmup(get: Get) -> Policy:
    multiplier, end = get("multiplier", 0.5), get("num_iter", 0)
    return lambda t: 1.0 if t >= end else multiplier


def piece_warmup(get: Get) -> Policy:
    """m1 before iteration n1, m2 before n2, then m3."""
    m1, n1, m2, n2, m3 = get("m1", 0.5), get("n1", 0), get("m2", 0.5), get("n2", 0), get("m3", 0.5)
    return lambda t: m1 if t < n1 else m2 if t < n2 else m3


def hill(get: Get) -> Policy:
    """Linear warm-up over num_iter, then inverse decay that stops at end_multiplier."""
    up, down = linear_warmup(get), inverse(get)
    end, least = get("num_iter", 0), get("end_multiplier", 0.0)
    return lambda t: up(t) if t < end else max(least, down(t - end))


def slope(get: Get) -> Policy:
    """multiplier_1 until num_iter_1, multiplier_2 from num_iter_2, a straight line between."""
    n1, m1 = get("num_iter_1", 0), get("multiplier_1", 0.0)
    n2, m2 = get("num_iter_2", 0), get("multiplier_2", 0.0)
    return lambda t: m1 if t < n1 else m2 if t >= n2 else m1 + (m2 - m1) * (t - n1) / (n2 - n1)


def cyclical(get: Get, prefix: str = "", size: str = "stepsize", size_default: int = 0,
             max_lr_default: float = 0.005) -> Policy:
    """A triangle wave between base_lr and max_lr, ``size`` iterations up and as many down, shrinking by decay.

    Source: Smith 2015, https://arxiv.org/abs/1506.01186.
    """
    half = _positive(get, size, size_default)
    decay = get(f"{prefix}decay", 1.0)
    height = abs(get(f"{prefix}max_lr", max_lr_default)) / abs(get("base_lr", math.nan)) - 1

    def policy(t: int) -> float:
        cycle = t // (2 * half)
        distance = abs(t / half - 2 * cycle - 1)
        return 1 + height * max(0.0, 1 - distance) * _power(decay, cycle)

    return policy


def cosine(get: Get, prefix: str = "") -> Policy:
    """Half a cosine from max_lr to min_lr over a period, then anew: the period t_mult times, the rates lr_shrink times.

    Source: Loshchilov and Hutter 2016, https://arxiv.org/abs/1608.03983.
    """
    high, low = get(f"{prefix}max_lr", 0.5), get(f"{prefix}min_lr", 0.1)
    period, growth = _positive(get, f"{prefix}period", 50), get(f"{prefix}t_mult", 1.0)
    shrink = get(f"{prefix}lr_shrink", 0.99)

    def policy(t: int) -> float:
        if growth == 1:
            round_, length = t // period, float(period)
            begin = round_ * length
        else:
            round_ = math.floor(math.log(1 - t / period * (1 - growth)) / math.log(growth))
            length = growth ** round_ * period
            begin = (1 - growth ** round_) / (1 - growth) * period
        return shrink ** round_ * (low + (high - low) * (1 + math.cos(math.pi * (t - begin) / length)) / 2)

    return policy


def after_warmup(then: Callable[[Get], Policy]) -> Callable[[Get], Policy]:
    """Constant, then linear warm-up, then another policy that counts from there."""
    def build(get: Get) -> Policy:
        start = get("start_warmup_multiplier", 0.1)
        constant, linear = get("constant_warmup_num_iter", 10000000), get("linear_warmup_num_iter", 10000000)
        rest = then(get)

        def policy(t: int) -> float:
            if t < constant:
                return start
            if t < constant + linear:
                return start + (1 - start) * (t - constant) / linear
            return rest(t - constant - linear)

        return policy

    return build


def composite(get: Get) -> Policy:
    """One policy after another, each for its number of iterations (counted from 1), each told the whole count."""
    counts = list(get("sub_policy_num_iters", ()))
    if not counts:
        raise ValueError("a composite policy needs sub_policy_num_iters, one number per part")
    parts = []
    for k in range(len(counts)):
        def part(name: str, default: Any, prefix: str = f"sub_policy_{k}_") -> Any:
            return get(name if name == "base_lr" else prefix + name, default)

        parts.append((build_policy(part), part("lr_scale", 1.0)))
    last = list(accumulate(counts))

    def policy(t: int) -> float:
        chosen, scale = parts[min(bisect_left(last, t), len(parts) - 1)]
        return scale * chosen(t)

    return policy


POLICIES: dict[str, Callable[[Get], Policy]] = {
    "fixed": fixed, "alter": alter, "hill": hill, "slope": slope, "step": step, "exp": exponential, "gate": gate,
    "inv": inverse, "poly": polynomial, "linearWarmup": linear_warmup, "constantWarmup": constant_warmup,
    "pieceWarmup": piece_warmup, "composite": composite, "cyclical": cyclical, "cosine": cosine,
    "constantThenLinearWarmup": after_warmup(fixed),
    "compositeCyclical": after_warmup(lambda get: cyclical(get, "cyclical_", "cyclical_step_size", 1000000, 0.05)),
    "compositeCosine": after_warmup(lambda get: cosine(get, "cosine_")),
}


def build_policy(get: Get) -> Policy:
    """The policy that the arguments name; raises ValueError when there is none of that name."""
    name = get("policy", "")
    if name not in POLICIES:
        raise ValueError(f"argument 'policy' must be one of {', '.join(sorted(POLICIES))}; found {name!r}")
    return POLICIES[name](get)


class LearningRate(Operator):
    """The learning rate of an iteration: base_lr times the factor that the policy gives.

    The arguments that a policy reads are told in its function in this module; those of the parts of a ``composite``
    are prefixed with sub_policy_0_, sub_policy_1_ and so on.
    """

    inputs = [In("input", "the iteration, one int64")]
    outputs = [Out("output", "one float32, of shape ()", differentiable=False)]
    arguments = [
        Float("base_lr", None), Str("policy", ""), Float("power"), Float("gamma"), Int("stepsize"), Float("max_lr"),
        Bool("active_first"), Int("active_period"), Int("inactive_period"), Int("max_iter"), Int("num_iter"),
        Float("start_multiplier"), Float("end_multiplier"), Float("multiplier"), Float("multiplier_1"),
        Float("multiplier_2"), Int("num_iter_1"), Int("num_iter_2"), Ints("sub_policy_num_iters"), Float("m1"),
        Int("n1"), Float("m2"), Int("n2"), Float("m3"), Float("start_warmup_multiplier"),
        Int("constant_warmup_num_iter"), Int("linear_warmup_num_iter"), Float("cyclical_max_lr"),
        Int("cyclical_step_size"), Float("cyclical_decay"), Float("cosine_min_lr"), Float("cosine_max_lr"),
        Int("cosine_period"), Float("cosine_t_mult"), Float("cosine_lr_shrink"), Float("decay"), Float("min_lr"),
        Int("period"), Float("t_mult"), Float("lr_shrink"),
    ]
    argument_prefixes = ("sub_policy_",)
    shape = scalar("float32")
    gradient = no_gradient
    example = Example(
        {"input": Tensor([10], "int64")},
        {"output": 0.025},
        {"base_lr": 0.1, "policy": "step", "stepsize": 5, "gamma": 0.5})

    def kernel(xp: Any, input: Any, *, base_lr: float | None, op: Any) -> Any:
        if base_lr is None:
            raise ValueError("argument 'base_lr' is missing: the rate that the policy scales")
        if "policy" not in op.state:
            op.state["policy"] = build_policy(op.argument)
        t = int(one_number(xp, "the iteration", input))
        return xp.asarray(base_lr * op.state["policy"](t), dtype=xp.float32, device=input.device)
