"""A torch module as a net: run without torch, differentiated, saved, and sharing its parameters with the module."""

import tempfile
from pathlib import Path

import numpy as np
import torch

import netgrad
from netgrad.bridge import UntranslatableError, from_torch

torch.manual_seed(0)
classifier = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Dropout(), torch.nn.Linear(8 * 4 * 4, 10), torch.nn.Softmax(dim=1)).eval()
images = torch.randn(2, 1, 8, 8)

translated = from_torch(classifier, [images], name="classifier")
netgrad.show(translated.net)

# on NumPy, from a file
with tempfile.TemporaryDirectory() as folder:
    netgrad.save(translated.net, Path(folder, "classifier.pbtxt"))
    net = netgrad.load(Path(folder, "classifier.pbtxt"))
workspace = netgrad.Workspace(backend="numpy")
translated.feed(workspace)
workspace[translated.inputs[0]] = images
workspace.run(net)
print("as torch:", np.allclose(workspace[translated.outputs[0]], classifier(images).detach(), atol=1e-6))

# on torch, parameters are shared: what trains here trains there
shared = netgrad.Workspace(backend="torch")
translated.feed(shared)
with torch.no_grad():
    classifier[6].bias += 1
print("shared:", np.array_equal(shared["6.bias"], classifier[6].bias.detach()))

# the gradient of the first score by the image, written as operators
gradients = netgrad.backward(net, translated.outputs, wrt=translated.inputs)
print("gradient of the input:", gradients[translated.inputs[0]], "by", len(net.Proto().op), "operators")

try:
    from_torch(torch.nn.Sequential(torch.nn.Hardswish(), torch.nn.Linear(8, 2), torch.nn.CELU()), [torch.randn(3, 8)])
except UntranslatableError as error:
    print(len(error.problems), "operations have no counterpart")
