"""Asks Caffe2 for the backward passes of `caffe2_nets.txt` and writes `caffe2_answers.txt`.

Run it where the real Caffe2 is installed (torch 1.8 or older), with PYTHONHASHSEED=0: the order of Sums depends on it.
"""

from pathlib import Path

from net_lines import answer, sections
from registered_rules import register

from caffe2.proto import caffe2_pb2
from caffe2.python import core

HERE = Path(__file__).parent


def main():
    register(core)
    found = sections((HERE / "caffe2_nets.txt").read_text())
    text = []
    for name, section in found.items():
        operators, outcome = answer(*section, core, caffe2_pb2)
        last = [f"{key}: {value}".rstrip() for key, value in outcome.items()]
        text.append("\n".join([f"## {name}", *operators, *last, ""]))
    (HERE / "caffe2_answers.txt").write_text("\n".join(text))


if __name__ == "__main__":
    main()
