"""A Caffe2 model inside a torch program: torch trains it, and its backward pass is the one that netgrad wrote."""

import torch

from caffe2.python import brew, model_helper
from netgrad.bridge import NetFunction, NetModule

torch.manual_seed(0)
model = model_helper.ModelHelper(name="spirals")
hidden = brew.relu(model, brew.fc(model, "points", "hidden", 2, 64), "hidden")
hidden = brew.relu(model, brew.fc(model, hidden, "hidden2", 64, 64), "hidden2")
brew.fc(model, hidden, "scores", 64, 2)

module = NetModule(model.net, ["points"], ["scores"], init_net=model.param_init_net)
print(module, "\nparameters:", ", ".join(name for name, _ in module.named_parameters()))

angle = torch.rand(400) * 9
arm = torch.arange(400) % 2
points = torch.stack([angle.cos(), angle.sin()], 1) * (angle[:, None] / 9) * (1 - 2 * arm[:, None])
optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
for _ in range(300):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(points), arm).backward()
    optimizer.step()
print("told apart:", f"{(module(points).argmax(1) == arm).float().mean():.0%}")

# the same net as a bare function, whose derivative torch checks by finite differences
function = NetFunction(model.net, ["points", *module.blobs], ["scores"])
some = points[:3].double().requires_grad_()
weights = [tensor.double().detach() for tensor in module.tensors().values()]
print("gradcheck:", torch.autograd.gradcheck(lambda x: function(x, *weights), some))
