"""Dense updates with few passes over memory. Where the learning rate lies on a GPU the reference kernels serve,
which do not wait for its value."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from netgrad.ops import optimizers as reference
from netgrad.runtime.backends.torch import override


@override("Adam")
def adam(xp: Any, param: Tensor, moment_1: Tensor, moment_2: Tensor, grad: Tensor, lr: Tensor, iter: Tensor, *,
         beta1: float, beta2: float, epsilon: float, op: Any) -> Any:
    if lr.is_cuda or op.wants(3):
        return reference.Adam.kernel(xp, param, moment_1, moment_2, grad, lr, iter, beta1=beta1, beta2=beta2,
                                     epsilon=epsilon)
    reference.same_shape(param=param, moment_1=moment_1, moment_2=moment_2, grad=grad)
    m = moment_1.lerp(grad, 1 - beta1)
    v = (moment_2 * beta2).addcmul_(grad, grad, value=1 - beta2)
    correction = reference.adam_correction(reference.iteration(xp, iter), beta1, beta2)
    return param.addcdiv(m, v.sqrt().add_(epsilon), value=float(lr) * correction), m, v


@override("Adagrad")
def adagrad(xp: Any, param: Tensor, moment: Tensor, grad: Tensor, lr: Tensor, *, epsilon: float, decay: float,
            weight_decay: float, op: Any) -> Any:
    if lr.is_cuda or op.num_outputs > 2:
        return reference.Adagrad.kernel(xp, param, moment, grad, lr, epsilon=epsilon, decay=decay,
                                        weight_decay=weight_decay)
    reference.same_shape(param=param, moment=moment, grad=grad)
    g = grad.add(param, alpha=weight_decay) if weight_decay else grad
    h = (moment if decay == 1 else moment * decay).addcmul(g, g)
    return param.addcdiv(g, h.sqrt().add_(epsilon), value=float(lr)), h


@override("RmsProp")
def rms_prop(xp: Any, grad: Tensor, mean_squares: Tensor, momentum: Tensor, lr: Tensor, *, decay: float,
             epsilon: float, momentum_argument: float) -> Any:
    if lr.is_cuda:
        return reference.RmsProp.kernel(xp, grad, mean_squares, momentum, lr, decay=decay, epsilon=epsilon,
                                        momentum_argument=momentum_argument)
    reference.same_shape(grad=grad, mean_squares=mean_squares, momentum=momentum)
    ms = (mean_squares * decay).addcmul_(grad, grad, value=1 - decay)
    step = (momentum * momentum_argument).addcdiv_(grad, (ms + epsilon).sqrt_(), value=float(lr))
    return step, ms, step.clone()
