"""A net learns to balance a pole on a cart by trial and error, from a gradient that is given to its backward pass.

There is no loss. The net says how probable each push is; pushes are drawn; and how the logarithms of their
probabilities change with the scores, times how much better they turned out than expected, is fed as the gradient of the
scores. Sources: Williams 1992 (REINFORCE); Barto, Sutton, Anderson 1983 (the cart).
"""

import numpy as np

from caffe2.python import brew, model_helper, optimizer, workspace
from running import Run, start

CARTS = 16  # that are played at once
LONGEST = 150  # time steps of 0.02 s
DISCOUNT = 0.98


class Carts:
    """Carts with poles, which fall: position, speed, angle and its speed, float64 [CARTS, 4]."""

    GRAVITY, CART, POLE, HALF_LENGTH, FORCE, TIME = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, rng):
        self.state = rng.uniform(-0.05, 0.05, (CARTS, 4))
        self.up = np.ones(CARTS, bool)

    def push(self, right):
        """Pushes each cart to the right or to the left; what has fallen stays down."""
        _, speed, angle, turning = self.state.T
        sin, cos = np.sin(angle), np.cos(angle)
        mass = self.CART + self.POLE
        force = (np.where(right, self.FORCE, -self.FORCE) + self.POLE * self.HALF_LENGTH * turning**2 * sin) / mass
        bend = (self.GRAVITY * sin - cos * force) / (self.HALF_LENGTH * (4 / 3 - self.POLE * cos**2 / mass))
        pull = force - self.POLE * self.HALF_LENGTH * bend * cos / mass
        change = self.TIME * np.stack([speed, pull, turning, bend], axis=1)
        self.state[self.up] += change[self.up]
        self.up &= (abs(self.state[:, 0]) < 2.4) & (abs(self.state[:, 2]) < np.deg2rad(12))


def add_layers(model):
    """From states to the scores of pushing left and right, (N, 2)."""
    hidden = brew.relu(model, brew.fc(model, "state", "hidden", 4, 32), "hidden")
    return brew.fc(model, hidden, "scores", 32, 2)


def playing_model():
    model = model_helper.ModelHelper(name="play", init_params=False)
    brew.softmax(model, add_layers(model), "probability")
    return model


def training_model():
    model = model_helper.ModelHelper(name="learn")
    scores = add_layers(model)
    model.AddGradientOperators({scores: "scores_gradient"})  # a blob that is fed
    optimizer.build_adam(model, base_learning_rate=0.02)
    return model


def play(net, rng):
    """Plays until all poles have fallen, or for LONGEST steps.

    Returns the states, the probabilities of pushing right, the pushes and which poles were up, [time, CARTS, ...] each.
    """
    carts, seen = Carts(rng), []
    while carts.up.any() and len(seen) < LONGEST:
        state, up = carts.state.astype(np.float32), carts.up.copy()
        workspace.FeedBlob("state", state)
        workspace.RunNet(net)
        probability = workspace.FetchBlob("probability")[:, 1]
        right = rng.random(CARTS) < probability
        seen.append((state, probability, right, up))
        carts.push(right)
    return [np.array(each) for each in zip(*seen)]


def advantages(up):
    """How much longer each pole stayed up, after each push, than poles did on average; of variance 1."""
    returns = np.zeros(up.shape)
    following = np.zeros(CARTS)
    for t in reversed(range(len(up))):
        following = returns[t] = up[t] + DISCOUNT * following * up[t]
    return (returns - returns[up].mean()) / (returns[up].std() + 1e-8)


def main(run: Run) -> None:
    player, learner = playing_model(), training_model()
    workspace.RunNetOnce(learner.param_init_net)
    workspace.CreateNet(player.net, input_blobs=["state"])
    workspace.CreateNet(learner.net, input_blobs=["state", "scores_gradient"])
    for _ in run.steps():
        state, probability, right, up = play(player.net, run.rng)
        # of minus the logarithm of a softmax by its scores: the probabilities, less 1 for what was done
        by_right = (probability - right) * advantages(up)
        gradient = np.stack([-by_right, by_right], axis=2)[up] / up.sum()
        workspace.FeedBlob("state", state[up])
        workspace.FeedBlob("scores_gradient", gradient.astype(np.float32))
        workspace.RunNet(learner.net)
        run.record(steps_upright=up.sum() / CARTS)

    upright = run.history["steps_upright"]
    run.figures(steps_upright_at_first=np.mean(upright[:5]), steps_upright=np.mean(upright[-5:]))


if __name__ == "__main__":
    start(main, steps=60)
