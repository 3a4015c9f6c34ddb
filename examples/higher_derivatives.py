"""Derivatives of derivatives: products with a Hessian, and a penalty on the norm of a gradient.

Run it with `python examples/higher_derivatives.py`.
"""

import numpy as np

import netgrad
from netgrad.runtime.numeric import check_gradient


def critic(net: netgrad.Net, x: str = "x") -> object:
    """Two layers that give points of the plane a score each."""
    hidden = net.Tanh(net.FC([x, "w1", "b1"], "hidden_in"), "hidden")
    return net.FC([hidden, "w2", "b2"], "score")


rng = np.random.default_rng(0)
parameters = {"w1": rng.normal(size=(8, 2)), "b1": rng.normal(size=8), "w2": rng.normal(size=(1, 8)), "b2": np.zeros(1)}
points = rng.normal(size=(5, 2))

# A product of the Hessian with a vector, as more operators of the net: how the gradient changes in its direction.
net = netgrad.Net("curvature")
loss = net.AveragedLoss(net.SquaredL2Distance([critic(net), "target"]), "loss")
products = netgrad.hessian_vector(net, loss, {name: f"{name}_direction" for name in parameters})

feeds = {**parameters, "x": points, "target": rng.normal(size=(5, 1))}
workspace = netgrad.Workspace()
workspace.feed(feeds)
workspace.feed({f"{name}_direction": rng.normal(size=value.shape) for name, value in parameters.items()})
workspace.run(net)
direction = {name: workspace.fetch(f"{name}_direction") for name in parameters}
curvature = sum(float(np.sum(workspace.fetch(products[name]) * direction[name])) for name in parameters)


def loss_at(step: float) -> float:
    workspace.feed({name: value + step * direction[name] for name, value in parameters.items()})
    workspace.run(net)
    return float(workspace.fetch("loss"))


h = 1e-4
differences = (loss_at(h) - 2 * loss_at(0.0) + loss_at(-h)) / h**2
print("curvature along the gradient agrees:", bool(np.isclose(curvature, differences, rtol=1e-4)))

# The penalty that Wasserstein GANs put on their critic: (|d score / d x| - 1)^2, by which its parameters are trained.
net = netgrad.Net("penalty")
score = critic(net)
slope = netgrad.backward(net, score, wrt="x")["x"]
norm = net.Sqrt(net.ReduceBackSum(net.Sqr(slope, "squares"), "square_norm"), "norm")
penalty = net.AveragedLoss(net.SquaredL2Distance([norm, "one"]), "penalty")
gradients = netgrad.backward(net, penalty, wrt=["w1", "b1", "w2"])
print(f"gradient penalty: {len(net.Proto().op)} operators, gradients of", ", ".join(map(str, gradients)))

forward = list(net.Proto().op)[:[op.output[0] for op in net.Proto().op].index("penalty") + 1]
check_gradient(forward, {**parameters, "x": points, "one": np.ones(5)}, ["penalty"], ["w1", "b1", "w2"])
print("gradcheck: True")
