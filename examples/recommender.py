"""Who clicks on what: dense features through a net, and tables of users and items whose rows are looked up.

Built as DLRM is (Naumov et al. 2019, https://arxiv.org/abs/1906.00091): bags of rows are summed by SparseLengthsSum,
all vectors are multiplied by each other, and what comes of it goes through a second net. Adagrad updates only the rows
that a batch has read. Clicks are drawn from a model with a hidden vector for each user and item.
"""

import numpy as np

from caffe2.python import brew, model_helper, optimizer, workspace
from caffe2.python.modeling import initializers
from running import Run, start

USERS, ITEMS, HIDDEN = 200, 100, 3
DENSE, WIDTH = 4, 8
SEEN = 5  # items that somebody has looked at, at most
BATCH = 256


class Clicks:
    """A world in which who clicks on what has its reasons."""

    def __init__(self, rng):
        self.rng = rng
        self.users, self.items = (rng.normal(size=(size, HIDDEN)) for size in (USERS, ITEMS))
        self.of_dense = rng.normal(size=DENSE)

    def draw(self, size):
        """Blobs of as many occasions, and the probabilities by which they became clicks."""
        user, item = self.rng.integers(USERS, size=size), self.rng.integers(ITEMS, size=size)
        dense = self.rng.normal(size=(size, DENSE))
        lengths = self.rng.integers(0, SEEN + 1, size)
        seen = self.rng.integers(ITEMS, size=lengths.sum())
        taste = self.users[user]
        np.add.at(taste, np.repeat(np.arange(size), lengths), self.items[seen] / 3)  # who looks at it likes it
        logits = 1.5 * (taste * self.items[item]).sum(axis=1) + dense @ self.of_dense
        probability = 1 / (1 + np.exp(-logits))
        clicked = self.rng.random(size) < probability
        one = np.ones(size, np.int32)
        return {"dense": dense.astype(np.float32), "clicked": clicked.astype(np.float32),
                "user": user, "user_lengths": one, "item": item, "item_lengths": one,
                "seen": seen, "seen_lengths": lengths.astype(np.int32)}, probability


def add_layers(model):
    """From an occasion to the logit of a click, (N, 1)."""
    hidden = brew.relu(model, brew.fc(model, "dense", "bottom1", DENSE, 16), "bottom1")
    vectors = [brew.fc(model, hidden, "bottom2", 16, WIDTH)]
    rows = {}
    for table, size in (("users", USERS), ("items", ITEMS)):
        rows[table] = model.create_param(
            table, shape=[size, WIDTH],
            initializer=initializers.Initializer("GaussianFill", std=0.1))
    for table, bag in (("users", "user"), ("items", "item"), ("items", "seen")):
        vectors.append(model.net.SparseLengthsSum([rows[table], bag, bag + "_lengths"], bag + "_vector"))

    count = len(vectors)
    stacked, _ = model.net.Concat(vectors, ["stacked", "stacked_sizes"], axis=1, add_axis=1)  # (N, 4, WIDTH)
    products = model.net.BatchMatMul([stacked, stacked], "products", trans_b=1)  # (N, 4, 4)
    flat = model.net.Flatten(products, "products_flat")
    together, _ = model.net.Concat([vectors[0], flat], ["together", "together_sizes"], axis=1)
    top = brew.relu(model, brew.fc(model, together, "top1", WIDTH + count * count, 32), "top1")
    return brew.fc(model, top, "logit", 32, 1)


def training_model():
    model = model_helper.ModelHelper(name="recommender")
    labels = model.net.ExpandDims("clicked", "clicked_column", dims=[1])
    losses = model.net.SigmoidCrossEntropyWithLogits([add_layers(model), labels], "losses")
    loss = model.net.AveragedLoss(losses, "loss")
    model.AddGradientOperators([loss])
    optimizer.build_adagrad(model, base_learning_rate=0.1)
    return model


def ranked_right(scores, clicked):
    """The share of pairs, of a click and of none, of which the click has the higher score (the area under the ROC)."""
    places = np.empty(len(scores))
    places[np.argsort(scores)] = np.arange(len(scores))
    yes = clicked > 0.5
    return (places[yes].sum() - yes.sum() * (yes.sum() - 1) / 2) / (yes.sum() * (~yes).sum())


def main(run: Run) -> None:
    world = Clicks(run.rng)
    model = training_model()
    test = model_helper.ModelHelper(name="recommender_test", init_params=False)
    add_layers(test)
    sparse = [str(param) for param, gradient in model.param_to_grad.items() if isinstance(gradient, tuple)]
    run.say("updated row by row:", ", ".join(sparse))

    def feed(blobs):
        for name, value in blobs.items():
            workspace.FeedBlob(name, value)

    workspace.RunNetOnce(model.param_init_net)
    feed(world.draw(BATCH)[0])
    workspace.CreateNet(model.net)
    workspace.CreateNet(test.net)
    for _ in run.steps():
        feed(world.draw(BATCH)[0])
        workspace.RunNet(model.net)
        run.record(loss=workspace.FetchBlob("loss"))

    blobs, probability = world.draw(5000)
    feed(blobs)
    workspace.RunNet(test.net)
    run.figures(ranked_right=ranked_right(workspace.FetchBlob("logit")[:, 0], blobs["clicked"]),
                ranked_right_by_who_knows_all=ranked_right(probability, blobs["clicked"]))


if __name__ == "__main__":
    start(main, steps=400)
