"""Generate the modules of `netgrad.proto` from its `.proto` files: ``python tools/regenerate_protos.py [--check]``.

The code of an old protoc runs on every later protobuf, that of a new one on no earlier; so it is made by the oldest
line we support (protobuf 4.25), which pins an old protobuf and so wants an environment of its own:
``pip install grpcio-tools==1.60.1``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
from pathlib import Path

PROTO = Path(__file__).parents[1] / "src" / "netgrad" / "proto"
TOOLS = "1.60.1"
SOURCES = ("caffe2", "caffe2_legacy", "hsm", "metanet", "predictor_consts", "prof_dag", "torch")

# Under these paths Caffe2 registered its files, and other people's `.proto` files import them. The generated classes
# say that they live in `caffe2.proto.*`, so that pickles pass between the two as well.
VIRTUAL_FOLDER = "caffe2/proto"

# Names without the prefix, which Caffe2 set on the module when `caffe2.python` was imported.
DEVICE_ALIASES = ("CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "COMPILE_TIME_MAX_DEVICE_TYPES")


def available() -> bool:
    """Whether the grpcio-tools that the committed modules were made with are installed here."""
    try:
        return importlib.metadata.version("grpcio-tools") == TOOLS
    except importlib.metadata.PackageNotFoundError:
        return False


def generate() -> dict[str, str]:
    """The text of every generated file, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{VIRTUAL_FOLDER}={PROTO}"]
        command += [f"--python_out={folder}", f"--pyi_out={folder}"]
        subprocess.run(command + [f"{VIRTUAL_FOLDER}/{name}.proto" for name in SOURCES], check=True)
        made = Path(folder, VIRTUAL_FOLDER).iterdir()
        texts = {path.name: path.read_text().replace("from caffe2.proto import", "from . import") for path in made}
    # The stubs leave the arguments of a generic type open, which strict type checkers refuse.
    texts = {name: text.replace(", _Mapping]", ", _Mapping[str, object]]") for name, text in texts.items()}
    texts["caffe2_pb2.py"] += "".join(f"{name} = PROTO_{name}\n" for name in DEVICE_ALIASES)
    texts["caffe2_pb2.pyi"] += "\n" + "".join(f"{name}: DeviceTypeProto\n" for name in DEVICE_ALIASES)
    return texts


def differing(texts: dict[str, str]) -> list[str]:
    """Names of the files that are missing, not generated, or of another text than the generated one."""
    committed = {path.name: path.read_text() for path in PROTO.glob("*_pb2.py*")}
    return sorted(name for name in texts.keys() | committed.keys() if texts.get(name) != committed.get(name))


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the protobuf modules of netgrad.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a committed file differs")
    check = parser.parse_args().check
    if not available():
        sys.exit(f"regenerate_protos: needs the code generator of one version: pip install grpcio-tools=={TOOLS}")
    texts = generate()
    stale = differing(texts)
    if check and stale:
        sys.exit(f"regenerate_protos: not what the .proto files say: {', '.join(stale)}; run it without --check")
    for name in stale:
        (PROTO / name).write_text(texts[name])
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
