"""Averages of parameters over iterations, which often generalize better than the last ones.

Caffe2's Adagrad writes these operators (`swa_options`, `ema_options`), but no release had them; what they do here
follows the papers named below. An iteration is counted from 1, as AtomicIter has it when updates run.
"""

from __future__ import annotations

from typing import Any

from netgrad.graph.arguments import Float, Int
from netgrad.graph.declaration import In
from netgrad.graph.example import Example, Tensor
from netgrad.graph.shapes import same_as
from netgrad.ops._arrays import one_number
from netgrad.ops.optimizers import PARAM, Update, out, same_shape

#: later than any iteration
NEVER = 2 ** 63 - 1

AVERAGE = In("average", "like param")
ITER = In("iter", "one int64: the iteration, from 1")


def _step(name: str, size: int) -> int:
    if size < 1:
        raise ValueError(f"argument {name!r} is a number of iterations, at least 1; found {size}")
    return size


class SWA(Update):
    """Stochastic weight averaging: the mean of the parameter over the iterations avg_start .. avg_end.

    From feedback_start to feedback_end, every feedback_step iterations, training goes on from the average.
    Source: Izmailov et al. 2018, https://arxiv.org/abs/1803.05407.
    """

    inputs = [PARAM, AVERAGE, ITER]
    outputs = [out("output_param"), out("output_average")]
    arguments = [
        Int("avg_start", 1, "the first iteration that counts"), Int("avg_end", NEVER, "the last one"),
        Int("feedback_start", NEVER, "the first iteration that goes on from the average; unless said, none does"),
        Int("feedback_step", 1), Int("feedback_end", NEVER),
    ]
    inplace = {(0, 0), (1, 1)}
    shares = {(0, 0), (1, 1), (1, 0)}
    shape = same_as(0, 1)
    example = Example(
        {"param": [1.0, 2.0], "average": [3.0, 6.0], "iter": Tensor([12], "int64")},
        {"output_param": [1.0, 2.0], "output_average": [2.33333, 4.66667]},
        {"avg_start": 10})

    def kernel(xp: Any, param: Any, average: Any, iter: Any, *, avg_start: int, avg_end: int, feedback_start: int,
               feedback_step: int, feedback_end: int) -> Any:
        same_shape(param=param, average=average)
        t = int(one_number(xp, "iter", iter))
        if avg_start <= t <= avg_end:
            average = average + (param - average) / (t - avg_start + 1)
        every = _step("feedback_step", feedback_step)
        if max(avg_start, feedback_start) <= t <= feedback_end and (t - feedback_start) % every == 0:
            param = average
        return param, average


class EMA(Update):
    """Exponential moving average of a parameter: average' = ema_alpha average + (1 - ema_alpha) param.

    Every ema_step iterations from ema_start to ema_end; it begins as the parameter is at ema_start. The parameter
    itself stays as it is. Source: Polyak and Juditsky 1992; Tarvainen and Valpola 2017, https://arxiv.org/abs/1703.01780.
    """

    inputs = [PARAM, AVERAGE, ITER]
    outputs = [out("output_param"), out("output_average")]
    arguments = [
        Int("ema_start", 1, "the first iteration that counts"), Int("ema_end", NEVER, "the last one"),
        Int("ema_step", 1), Float("ema_alpha", 0.999, "the share of what was there, between 0 and 1"),
    ]
    inplace = {(0, 0), (1, 1)}
    shares = {(0, 0), (1, 1), (0, 1)}
    shape = same_as(0, 1)
    example = Example(
        {"param": [1.0, 2.0], "average": [3.0, 6.0], "iter": Tensor([12], "int64")},
        {"output_param": [1.0, 2.0], "output_average": [2.5, 5.0]},
        {"ema_start": 10, "ema_step": 2, "ema_alpha": 0.75})

    def kernel(xp: Any, param: Any, average: Any, iter: Any, *, ema_start: int, ema_end: int, ema_step: int,
               ema_alpha: float) -> Any:
        same_shape(param=param, average=average)
        if not 0 <= ema_alpha <= 1:
            raise ValueError(f"argument 'ema_alpha' must lie between 0 and 1, found {ema_alpha}")
        t, every = int(one_number(xp, "iter", iter)), _step("ema_step", ema_step)
        if t == ema_start:
            average = param
        elif ema_start < t <= ema_end and (t - ema_start) % every == 0:
            average = ema_alpha * average + (1 - ema_alpha) * param
        return param, average
