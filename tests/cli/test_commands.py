"""The command `netgrad`: what it prints, its exit status, and its one line where something is wrong."""

import os
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner

import netgrad
from netgrad.cli import run as run_command
from netgrad.proto import caffe2_pb2, metanet_pb2, read_net, write_net
from netgrad.tools.checking import check

COMMANDS = ["show", "check", "verify", "draw", "backward", "explain", "run", "plan", "profile", "demo", "ops"]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(capfd):
    """Runs the command; returns its exit status, standard output and standard error."""

    def call(*arguments):
        status = run_command([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return status, out, err

    return call


def operator(type, inputs, outputs, **arguments):
    from netgrad.graph.operator import CreateOperator

    return CreateOperator(type, inputs, outputs, **arguments)


def net_of(*operators, inputs=(), outputs=(), name="net"):
    return caffe2_pb2.NetDef(name=name, op=operators, external_input=inputs, external_output=outputs)


@pytest.fixture
def line():
    """A file with y = w x + b and its squared distance to a target."""
    net = net_of(
        operator("FC", ["x", "w", "b"], ["y"]),
        operator("SquaredL2Distance", ["y", "target"], ["distance"]),
        operator("AveragedLoss", ["distance"], ["loss"]),
        inputs=["x", "w", "b", "target"], outputs=["loss"], name="line")
    write_net(net, "line.pbtxt")
    return "line.pbtxt"


@pytest.fixture
def overwritten():
    """A file in which a gradient needs a value that is overwritten: Sqr reads x, and Exp writes over it."""
    net = net_of(
        operator("Sqr", ["x"], ["y"]),
        operator("Exp", ["x"], ["x"]),
        operator("Mul", ["x", "y"], ["z"]),
        inputs=["x"])
    write_net(net, "over.pb")
    return "over.pb"


# reading


def test_show_prints_a_line_per_operator(command, line):
    status, out, err = command("show", line)
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "net line: 3 operators", "  reads x, w, b, target", "  leaves loss", "0  y = FC(x, w, b)",
        "1  distance = SquaredL2Distance(y, target)", "2  loss = AveragedLoss(distance)"]


def test_show_ssa_numbers_versions(command, overwritten):
    out = command("show", overwritten, "--ssa")[1].splitlines()
    assert out[2:] == ["0  y@1 = Sqr(x@0)", "1  x@1 = Exp(x@0)", "2  z@1 = Mul(x@1, y@1)"]


def test_show_prints_all_nets_of_models_and_plans(command, line):
    net = read_net(line)
    model = metanet_pb2.MetaNetDef()
    model.nets.add(key="predict").value.CopyFrom(net)
    model.blobs.add(key="inputs", value=["x"])
    write_net(model, "model.pb")
    step = caffe2_pb2.ExecutionStep(name="train", network=["line"], num_iter=5)
    plan = caffe2_pb2.PlanDef(name="plan", network=[net], execution_step=[step])
    write_net(plan, "plan.pb")
    for file, first in (("model.pb", ["model: 1 net", "  inputs: x"]),
                        ("plan.pb", ["plan plan: 1 net", "  step train: runs line, 5 times"])):
        status, out, _ = command("show", file)
        assert status == 0
        assert out.splitlines()[:2] == first
        assert "0  y = FC(x, w, b)" in out


@pytest.mark.parametrize("suffix", [".pb", ".pbtxt", ".prototxt"])
def test_files_are_read_in_either_form(command, line, suffix):
    write_net(read_net(line), "copy" + suffix)
    assert command("show", "copy" + suffix)[1] == command("show", line)[1]


def test_draw_writes_a_picture(command, line):
    assert command("draw", line, "-o", "net.svg", "--title", "A line") == (
        0, "net.svg: 3 operators of line.pbtxt\n", "")
    words = list(ElementTree.parse("net.svg").getroot().itertext())
    assert {"A line", "FC", "AveragedLoss", "target"} <= set(words)


@pytest.mark.parametrize("name", ["net.png", "net.jpg", "net.pdf", "net.svgz"])
def test_draw_refuses_names_that_promise_something_else_than_svg(command, line, name):
    status, out, err = command("draw", line, "-o", name)
    assert (status, out) == (1, "") and err.startswith(f"netgrad: {name}: a drawing is SVG;")
    assert not os.path.exists(name)


@pytest.mark.parametrize(("wrong", "said"), [("shw", "did you mean 'show'?"), ("backwards", "did you mean 'backward'?"),
                                             ("frobnicate", "there are show, check, ")])
def test_unknown_commands_are_told_the_known_ones(command, wrong, said):
    status, out, err = command(wrong, "net.pb")
    assert (status, out) == (2, "") and said in err and len(err.splitlines()) == 1


# differentiating


def test_backward_prints_the_new_operators_and_the_map(command, line):
    status, out, _ = command("backward", line, "--of", "loss", "--wrt", "w")
    assert status == 0
    assert [text.split("  ", 1)[1] for text in out.splitlines() if text[0].isdigit()] == [
        "loss_autogen_grad = ConstantFill(loss, value=1.0)",
        "distance_grad = AveragedLossGradient(distance, loss_autogen_grad)",
        'y_grad, "" = SquaredL2DistanceGradient(y, target, distance_grad)',
        'w_grad, "" = FCGradient(x, w, y_grad)']
    assert out.splitlines()[-2:] == ["gradients:", "  w: w_grad"]


def test_backward_writes_what_the_library_makes(command, line):
    assert command("backward", line, "--of", "loss", "-o", "train.pb")[:2] == (
        0, "train.pb: 3 operators of line.pbtxt and 4 more\n")
    net = netgrad.load(line)
    netgrad.backward(net, "loss")
    assert list(read_net("train.pb").op) == list(net.Proto().op)
    assert read_net("train.pb").name == "line"


def test_backward_takes_given_gradients(command, line):
    out = command("backward", line, "--of", "y=dy", "--of", "distance")[1]
    assert "FCGradient(x, w, " in out
    assert "ConstantFill(distance, value=1.0)" in out
    assert "dy" in out.split("Sum(")[1].split(")")[0]


def test_backward_says_which_wanted_blobs_have_no_gradient(command, line):
    unread = caffe2_pb2.OperatorDef(type="Copy", input=["w"], output=["label"])
    net = read_net(line)
    net.op.append(unread)
    write_net(net, "aside.pb")
    status, out, err = command("backward", "aside.pb", "--of", "loss", "--wrt", "label", "-o", "train.pb")
    assert (status, out) == (1, "") and not os.path.exists("train.pb")
    assert err.startswith("'label' has no gradient: 'label' is not connected") and "what to do" in err
    status, out, err = command("backward", "aside.pb", "--of", "loss", "--wrt", "label", "--wrt", "w")
    assert status == 0
    assert out.splitlines()[-2:] == ["gradients:", "  w: w_grad"]
    assert err.startswith("'label' has no gradient")
    with pytest.warns(UserWarning, match="^'label' has no gradient: 'label' is not connected[^\n]*$"):
        netgrad.backward(netgrad.load("aside.pb"), "loss", wrt="label")


def test_backward_refuses_or_saves_overwritten_values(command, overwritten):
    status, out, err = command("backward", overwritten, "--of", "z")
    assert (status, out) == (1, "")
    assert err.count("\n") == 1
    assert "overwrote it" in err and "--overwritten save" in err and "save\"" not in err
    assert not os.path.exists("saved.pb")
    status, out, _ = command("backward", overwritten, "--of", "z", "--overwritten", "save", "-o", "saved.pb")
    assert status == 0
    x = np.array([0.5, 1.0, 2.0], np.float32)
    workspace = netgrad.Workspace()
    workspace.feed(x=x)
    workspace.run(netgrad.load("saved.pb"))
    gradients = netgrad.backward(netgrad.load(overwritten), "z", overwritten="save")
    np.testing.assert_allclose(workspace["z"], np.exp(x) * x**2, rtol=1e-5)
    np.testing.assert_allclose(workspace[gradients["x"]], np.exp(x) * (x**2 + 2 * x), rtol=1e-5)


def test_explain_says_why(command, line):
    status, out, _ = command("explain", line, "w", "--of", "loss")
    assert status == 0
    assert "has a gradient" in out and "FC #0" in out
    net = read_net(line)
    net.op.insert(0, operator("StopGradient", ["x0"], ["x"]))
    net.external_input[0] = "x0"
    write_net(net, "stopped.pb")
    out = command("explain", "stopped.pb", "x0", "--of", "loss")[1]
    assert "zero" in out and "StopGradient" in out
    assert command("explain", line, "ww", "--of", "loss")[0] == 1


# checking


def test_verify_finds_a_wrong_read(command, line):
    command("backward", line, "--of", "loss", "-o", "train.pb")
    assert command("verify", "train.pb") == (
        0, "train.pb: the backward pass is right (3 gradient operators of 7)\n", "")
    net = read_net("train.pb")
    gradient = next(op for op in net.op if op.type == "FCGradient")
    gradient.input[0] = "target"
    write_net(net, "wrong.pb")
    status, out, err = command("verify", "wrong.pb")
    assert (status, err) == (1, "")
    assert "FCGradient" in out and "target" in out


def test_check_reports_everything_at_once(command):
    net = net_of(
        caffe2_pb2.OperatorDef(type="Relu", input=["x", "x"], output=["y"]),
        caffe2_pb2.OperatorDef(type="Rellu", input=["y"], output=["z"]),
        caffe2_pb2.OperatorDef(type="Sigmoid", input=["dta"], output=["s"]),
        caffe2_pb2.OperatorDef(type="Tanh", input=["later"], output=["t"]),
        caffe2_pb2.OperatorDef(type="Copy", input=["data"], output=["later"]),
        inputs=["x", "data"], outputs=["missing"])
    write_net(net, "bad.pb")
    status, out, err = command("check", "bad.pb")
    assert (status, err) == (1, "")
    problems = [text for text in out.splitlines() if text.startswith("problem: ")]
    for words in (("operator 0, Relu", "2 inputs"), ("operator 1, Rellu", "Relu"), ("operator 2", "'dta'", "'data'"),
                  ("operator 3", "'later'", "operator 4, Copy, writes it"), ("external output 'missing'",)):
        assert any(all(word in problem for word in words) for problem in problems), (words, problems)
    assert out.splitlines()[-1] == f"bad.pb: 5 operators, {len(problems)} problems"


def test_check_notes_are_no_problems(command, line):
    net = read_net(line)
    net.op.append(operator("ArgMax", ["y"], ["best"]))
    write_net(net, "noted.pb")
    status, out, _ = command("check", "noted.pb")
    assert status == 0
    assert "note: operator 3, ArgMax: no gradient" in out
    assert command("check", line) == (0, "line.pbtxt: 3 operators, no problems\n", "")


def test_check_notes_arguments_that_an_operator_does_not_have(command):
    leaky = operator("LeakyRelu", ["x"], ["y"])
    leaky.arg.add(name="alhpa", f=0.5)
    plain = operator("Relu", ["y"], ["z"])
    plain.arg.add(name="alhpa", f=0.5)
    plain.arg.add(name="order", s=b"NCHW")
    write_net(net_of(leaky, plain, inputs=["x"]), "argument.pb")
    assert command("check", "argument.pb") == (0, (
        "note: operator 0, LeakyRelu: there is no argument 'alhpa', which has no effect; did you mean 'alpha'?\n"
        "note: operator 1, Relu: there is no argument 'alhpa', which has no effect; it has none at all\n"
        "argument.pb: 2 operators, no problems\n"), "")


def test_check_of_a_blob_lists_every_missing_rule(command):
    net = net_of(
        operator("ArgMax", ["x"], ["a"]), operator("Cast", ["a"], ["c"], to=1), operator("Ceil", ["c"], ["d"]),
        operator("Floor", ["d"], ["e"]), inputs=["x"])
    write_net(net, "flat.pb")
    status, out, _ = command("check", "flat.pb", "--of", "e")
    assert status == 1
    assert sum(problem.kind == "gradient" for problem in check(net, ["e"])) == 1
    assert "Floor" in out


# running


def feed_files():
    rng = np.random.default_rng(0)
    values = {"x": rng.normal(size=(4, 3)), "w": rng.normal(size=(2, 3)), "b": np.zeros(2), "target": np.zeros((4, 2))}
    values = {name: value.astype(np.float32) for name, value in values.items()}
    for name, value in values.items():
        np.save(f"{name}.npy", value)
    return values, [word for name in values for word in ("--feed", f"{name}={name}.npy")]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_run_feeds_and_fetches(command, line, backend):
    values, feeds = feed_files()
    y = values["x"] @ values["w"].T
    wanted = ["--fetch", "y", "--fetch", "loss", "-o", "out.npz"]
    status, out, err = command("run", line, *feeds, *wanted, "--backend", backend)
    assert (status, err) == (0, "")
    assert out == "out.npz: y float32 4 x 2, loss float32 scalar\n"
    with np.load("out.npz") as found:
        np.testing.assert_allclose(found["y"], y, rtol=1e-5)
        np.testing.assert_allclose(found["loss"], (y**2).sum(1).mean() / 2, rtol=1e-5)
    assert command("run", line, *feeds, "--fetch", "y", "-o", "y.npy")[0] == 0
    np.testing.assert_allclose(np.load("y.npy"), y, rtol=1e-5)


def test_run_fetches_the_external_outputs_and_runs_init_nets(command, line):
    values, _ = feed_files()
    init = net_of(operator("GivenTensorFill", [], ["w"], shape=[2, 3], values=values["w"].ravel().tolist()))
    write_net(init, "init.pb")
    feeds = ["--init", "init.pb", "--feed", "x=x.npy", "--feed", "b=b.npy", "--feed", "target=target.npy"]
    status, out, _ = command("run", line, *feeds)
    assert status == 0
    loss = ((values["x"] @ values["w"].T) ** 2).sum(1).mean() / 2
    head, number = out.split("\n", 1)
    assert head == "loss: float32 scalar"
    assert float(number) == pytest.approx(loss, rel=1e-5)


def test_run_feeds_the_arrays_of_an_archive_by_name(command, line):
    values, feeds = feed_files()
    np.savez("all.npz", unread=np.zeros(1), **values)
    status, out, err = command("run", line, "--feed", "all.npz")
    assert (status, err) == (0, "")
    assert out == command("run", line, *feeds)[1]
    status, _, err = command("run", line, "--feed", "x=all.npz")
    assert status == 1 and "--feed all.npz feeds each by its name" in err
    assert command("run", line, "--feed", "none.npz")[2] == "netgrad: none.npz: No such file or directory\n"


def test_run_warns_of_feeds_that_nobody_reads(command, line):
    _, feeds = feed_files()
    status, _, err = command("run", line, *feeds, "--feed", "tagret=x.npy")
    assert (status, err) == (
        0, "warning: --feed tagret=x.npy: no operator reads 'tagret'; did you mean 'target'?\n")
    assert command("run", line, *feeds, "--feed", "aside=x.npy", "--fetch", "aside")[2] == ""
    np.savez("other.npz", q=np.zeros(1))
    assert "no operator reads 'q'; there is 'b', " in command("run", line, *feeds, "--feed", "other.npz")[2]


def test_run_says_what_there_is_to_fetch(command, line):
    _, feeds = feed_files()
    assert command("run", line, *feeds, "--fetch", "distence") == (
        1, "", "netgrad: there is no blob 'distence' to fetch; did you mean 'distance'?\n")
    assert "there is 'b', 'distance', 'loss', " in command("run", line, *feeds, "--fetch", "nosuch")[2]


def test_run_draws_the_same_numbers_for_a_seed(command):
    write_net(net_of(operator("GaussianFill", [], ["r"], shape=[3]), outputs=["r"]), "random.pb")
    first, again, other = (command("run", "random.pb", "--seed", seed)[1] for seed in (1, 1, 2))
    assert first == again != other


def test_run_executes_no_pickles(command, line):
    np.save("x.npy", np.array([print], dtype=object), allow_pickle=True)
    status, _, err = command("run", line, "--feed", "x=x.npy")
    assert status == 1
    assert err.startswith("netgrad: x.npy: expected an array in NumPy's .npy format")


def test_run_knows_files_that_are_not_numpys(command, line):
    with open("photo.jpg", "wb") as file:
        file.write(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    status, out, err = command("run", line, "--feed", "x=photo.jpg")
    assert (status, out) == (1, "")
    assert err.startswith("netgrad: photo.jpg: not a NumPy file") and err.count("\n") == 1


def test_demo_runs_and_leaves_its_files(command):
    status, out, err = command("demo", "--epochs", 1, "-o", "there", "--backend", "numpy")
    assert (status, err) == (0, "")
    assert "\x1b" not in out and "FCGradient(" in out
    assert {"train_net.pb", "net.svg", "training_curve.png"} <= set(os.listdir("there"))
    assert command("verify", "there/train_net.pb")[0] == 0
    advised = out.splitlines()[-1].split()
    assert advised[:2] == ["netgrad", "run"]
    status, out, err = command(*advised[1:], "--backend", "numpy")
    assert (status, err) == (0, "")
    assert out.startswith("probability: float32 360 x 10\n")


@pytest.mark.parametrize("arguments", [["run", "line.pbtxt"], ["demo"]])
def test_a_backend_that_is_missing_is_named_with_the_cure(command, line, arguments, monkeypatch):
    from netgrad.runtime import backends

    monkeypatch.setattr(backends, "available", lambda: ("numpy",))
    monkeypatch.setattr(backends, "_loaded", {})
    status, out, err = command(*arguments, "--backend", "torch")
    assert (status, out, err) == (1, "", "netgrad: backend 'torch' is not installed; `pip install netgrad[torch]`\n")
    assert not os.path.exists("demo-output")


# the catalogue


def test_ops_lists_and_documents(command):
    status, out, _ = command("ops", "Leaky*")
    assert status == 0
    assert [text.split() for text in out.splitlines()[1:3]] == [
        ["LeakyRelu", "activations", "yes", "yes"], ["LeakyReluGradient", "activations", "yes", "yes"]]
    out = command("ops", "FC")[1]
    assert out.startswith("Y = FC(X, W, b)\n")
    assert "W_grad, b_grad, X_grad = FCGradient(X, W, dY)" in out and "axis_w: an integer, default 1" in out
    status, _, err = command("ops", "Rellu")
    assert status == 1
    assert "'Rellu'" in err and "Relu" in err


def test_every_operator_can_be_documented(command):
    from netgrad.graph import registry
    from netgrad.ops.catalogue import sheet as sheet_of

    for declaration in registry.every():
        sheet = list(sheet_of(declaration))
        assert declaration.type in sheet[0]
        assert any(text.startswith("gradient:") for text in sheet), declaration.type


def test_ops_suggests_names_in_the_right_case(command):
    assert "did you mean FC" in command("ops", "fc")[2]
    assert "did you mean LSTMUnit" in command("ops", "lstmunit")[2]


# misuse


def test_the_bare_command_prints_its_help(command):
    status, out, err = command()
    assert (status, err) == (0, "")
    assert out == command("--help")[1] and len(out.splitlines()) > 20


def test_advice_is_for_the_command_line(command, line):
    os.rename(line, "line.pb")
    err = command("show", "line.pb")[2]
    assert "found text; give it a name that ends in .pbtxt" in err and "text=" not in err
    write_net(caffe2_pb2.PlanDef(name="plan", network=[caffe2_pb2.NetDef(name="n")],
                                 execution_step=[caffe2_pb2.ExecutionStep(name="s", network=["n"])]), "plan.pb")
    err = command("check", "plan.pb")[2]
    assert "found a PlanDef; `netgrad show` shows it" in err and "cls=" not in err


def test_a_missing_folder_is_named(command, line):
    missing = os.path.realpath("nowhere")
    for arguments in (["backward", line, "--of", "loss", "-o", "nowhere/a.pb"], ["draw", line, "-o", "nowhere/a.svg"]):
        assert command(*arguments) == (1, "", f"netgrad: {missing}: No such file or directory\n")


@pytest.mark.parametrize("arguments, status, words", [
    (["show", "nowhere.pb"], 1, "nowhere.pb: No such file"),
    (["show", "garbage.pb"], 1, "garbage.pb: expected"),
    (["backward", "line.pbtxt"], 2, "--of"),
    (["backward", "line.pbtxt", "--of", "lss"], 1, "did you mean 'loss'"),
    (["backward", "line.pbtxt", "--of", "loss="], 2, "BLOB=GRADIENT"),
    (["backward", "line.pbtxt", "--of", "loss", "--overwritten", "never"], 2, "never"),
    (["run", "line.pbtxt", "--feed", "x"], 2, "NAME=FILE.npy"),
    (["run", "line.pbtxt", "--fetch", "loss"], 1, "'x'"),
    (["run", "line.pbtxt", "-o", "out.txt"], 2, ".npz"),
    (["explode"], 2, "explode"),
])
def test_what_is_wrong_is_one_line(command, line, arguments, status, words):
    with open("garbage.pb", "wb") as file:
        file.write(b"\xff\x00garbage" * 9)
    found, out, err = command(*arguments)
    assert (found, out) == (status, "")
    assert err.count("\n") == 1 and err.startswith("netgrad") and words in err


def test_debug_shows_where(command):
    with pytest.raises(FileNotFoundError):
        run_command(["--debug", "show", "nowhere.pb"])


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(name):
    from netgrad.cli.commands import netgrad as group

    assert list(group.commands) == [] and group.list_commands(None) == COMMANDS
    shown = CliRunner().invoke(group, [name, "--help"])
    assert shown.exit_code == 0
    assert f"netgrad {name}" in shown.output.split("Examples:")[1]


def test_piped_output_is_plain_and_a_closed_pipe_is_left_quietly(line):
    environment = {**os.environ, "TERM": "xterm-256color"}
    done = subprocess.run([sys.executable, "-m", "netgrad", "show", line], capture_output=True, env=environment)
    assert done.returncode == 0
    assert b"\x1b" not in done.stdout and b"FC(x, w, b)" in done.stdout
    pipe = subprocess.run(f"{sys.executable} -m netgrad ops | head -n 1", shell=True, capture_output=True, text=True)
    assert pipe.stdout.split() == ["operator", "family", "gradient", "kernel"]
    assert pipe.stderr == ""
