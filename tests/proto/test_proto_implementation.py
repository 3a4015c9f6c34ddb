"""Scripts of Caffe2's days name an implementation of protobuf that is gone."""

import os
import subprocess
import sys


def test_asking_for_the_implementation_in_cpp_is_no_error():
    code = "from caffe2.proto import caffe2_pb2; print(caffe2_pb2.NetDef(name='n').name)"
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "cpp"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "n", done.stderr
