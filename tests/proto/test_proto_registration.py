"""One set of messages for a process, under two names, whoever asks first; and the modules are what protoc makes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import caffe2

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tools" / "regenerate_protos.py"
MODULES = [path.stem for path in (ROOT / "src" / "netgrad" / "proto").glob("*_pb2.py")]


def run(program, *options, **environment):
    """Run a program in a Python of its own."""
    command = [sys.executable, "-W", "error", *options, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)


def last_line(done):
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("implementation", ["upb", "python"])
@pytest.mark.parametrize("first, second", [("caffe2", "netgrad"), ("netgrad", "caffe2")])
def test_one_module_under_both_names(first, second, implementation):
    assert len(MODULES) == 7
    program = ["import importlib, sys"]
    program += [f"import {package}.proto.{name}" for package in (first, second) for name in MODULES]
    program += [
        f"assert caffe2.proto.{name} is netgrad.proto.{name} is sys.modules['caffe2.proto.{name}']" for name in MODULES
    ]
    program += [
        "from caffe2.proto import caffe2_pb2",
        "from caffe2.proto.caffe2_pb2 import NetDef",
        "assert NetDef is netgrad.proto.caffe2_pb2.NetDef",
        "assert caffe2_pb2.DESCRIPTOR.package == 'caffe2' and NetDef.DESCRIPTOR.full_name == 'caffe2.NetDef'",
        "assert importlib.reload(caffe2_pb2).NetDef is NetDef",
        "assert (caffe2_pb2.CPU, caffe2_pb2.CUDA, caffe2_pb2.IDEEP, caffe2_pb2.PROTO_HIP) == (0, 1, 5, 6)",
        "assert not {'torch', 'numpy'} & sys.modules.keys()",
    ]
    done = run("\n".join(program), PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=implementation)
    assert done.returncode == 0, done.stderr


FOREIGN = """
from google.protobuf import descriptor_pb2, descriptor_pool
file = descriptor_pb2.FileDescriptorProto(name={name!r}, package="caffe2")
file.message_type.add(name="NetDef").field.add(name="other", number=1, label=1, type=5)
descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
import {module}
"""


@pytest.mark.parametrize("module", ["netgrad.proto", "netgrad.proto.metanet_pb2", "caffe2.proto.caffe2_pb2"])
@pytest.mark.parametrize("name", ["caffe2/proto/caffe2.proto", "elsewhere.proto"])
@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_foreign_definitions_give_one_sentence(implementation, name, module):
    program = FOREIGN.format(name=name, module=module)
    line = last_line(run(program, PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=implementation))
    assert line.startswith("ImportError: netgrad.proto: another package of this process has registered its own")
    assert "uninstall that package" in line


def test_other_peoples_protos_can_import_ours():
    program = """
import caffe2.proto.caffe2_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
file = descriptor_pb2.FileDescriptorProto(name="own.proto", package="own", dependency=["caffe2/proto/caffe2.proto"])
file.message_type.add(name="Own").field.add(name="net", number=1, label=1, type=11, type_name=".caffe2.NetDef")
own = descriptor_pool.Default().AddSerializedFile(file.SerializeToString())
own = descriptor_pool.Default().FindMessageTypeByName("own.Own")
assert type(message_factory.GetMessageClass(own)().net) is caffe2.proto.caffe2_pb2.NetDef
"""
    done = run(program)
    assert done.returncode == 0, done.stderr


def test_a_folder_mixed_with_an_old_wheel_is_refused(tmp_path):
    folder = tmp_path / "caffe2"
    (folder / "python").mkdir(parents=True)
    shutil.copy(caffe2.__file__, folder / "__init__.py")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import caffe2"
    assert run(program).returncode == 0
    (folder / "python" / "caffe2_pybind11_state_gpu.cpython-38-x86_64-linux-gnu.so").touch()
    line = last_line(run(program))
    assert line.startswith(f"ImportError: caffe2: {folder} mixes netgrad's package with the compiled Caffe2")
    assert "install netgrad again" in line


def test_generated_modules_are_those_of_the_proto_files():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    if "needs the code generator" in done.stderr:
        pytest.skip(done.stderr.strip() + " (in CI a job of its own does, and runs the script with --check)")
    assert done.returncode == 0, done.stderr
