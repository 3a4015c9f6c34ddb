"""A net solves a differential equation: u'' + 0.4 u' + 4 u = 0 with u(0) = 1, u'(0) = 0, a damped oscillation.

The net's derivatives by its input are operators that `netgrad.backward` appends, twice; the equation is written with
them, its error is the loss, and a third backward pass gives the gradients of the parameters. It is shown no solution.
Source: Raissi, Perdikaris, Karniadakis 2019, https://doi.org/10.1016/j.jcp.2018.10.045.
"""

import numpy as np

import netgrad
from caffe2.python import brew, model_helper, optimizer, workspace
from running import Run, start

DAMPING, STIFFNESS = 0.4, 4.0
END = 4.0
POINTS = 64
WIDTH = 24


def add_solution(model, t):
    """u(t) = 1 + t^2 n(t), (N, 1), with n a net of two layers: whatever n is, u(0) = 1 and u'(0) = 0."""
    spread = {"min": -END, "max": END}  # so that the functions of the first layer bend all over the interval
    hidden = brew.fc(model, t, "layer1", 1, WIDTH, weight_init=("UniformFill", {"min": -2.0, "max": 2.0}),
                     bias_init=("UniformFill", spread))
    hidden = brew.tanh(model, hidden, "layer1_out")
    hidden = brew.tanh(model, brew.fc(model, hidden, "layer2", WIDTH, WIDTH), "layer2_out")
    n = brew.fc(model, hidden, "layer3", WIDTH, 1)
    return model.net.Add([model.net.Mul([model.net.Sqr(t, "t_squared"), n], "departure"), "one"], "u", broadcast=1)


def exact(t):
    """The solution, to compare with."""
    decay, frequency = DAMPING / 2, np.sqrt(STIFFNESS - DAMPING**2 / 4)
    return np.exp(-decay * t) * (np.cos(frequency * t) + decay / frequency * np.sin(frequency * t))


def training_model(steps):
    model = model_helper.ModelHelper(name="oscillation")
    net = model.net
    u = add_solution(model, "t")
    velocity = netgrad.backward(net, u, wrt="t")["t"]
    acceleration = netgrad.backward(net, velocity, wrt="t")["t"]
    friction = net.Scale(velocity, "friction", scale=DAMPING)
    pull = net.Scale(u, "pull", scale=STIFFNESS)
    error = net.Sum([acceleration, friction, pull], "error")
    loss = net.AveragedLoss(net.Sqr(error, "error_squared"), "loss")
    derivatives = len(net.Proto().op)
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.01, policy="poly", power=1.0, max_iter=steps)
    return model, derivatives


def main(run: Run) -> None:
    model, derivatives = training_model(run.total)
    run.say(f"{len(model.net.Proto().op)} operators, {derivatives} of them for the equation")
    t = np.linspace(0, END, POINTS, dtype=np.float32)[:, None]
    workspace.FeedBlob("t", t)
    workspace.FeedBlob("one", np.ones(1, np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    for _ in run.steps():
        workspace.RunNet(model.net)
        run.record(loss=workspace.FetchBlob("loss"))
    u = workspace.FetchBlob("u")

    def draw(figure):
        axes = figure.subplots()
        axes.plot(t, exact(t), color="#d9660b", linewidth=4, alpha=0.4, label="exact")
        axes.plot(t, u, color="#3b6fd4", label="the net")
        axes.set_xlabel("t")
        axes.set_ylabel("u")
        axes.legend()

    run.picture("solution.png", draw)
    run.figures(loss=run.history["loss"][-1], largest_difference=np.abs(u - exact(t)).max())


if __name__ == "__main__":
    start(main, steps=1500)
