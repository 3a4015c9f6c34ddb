"""Writes ``caffe2_control.json``: what Caffe2 answers for the nets of ``control_nets``. Runs under Caffe2."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from control_nets import answer, forward_nets

from caffe2.python import control_ops_util, core

answers = {name: answer(core, net) for name, net in forward_nets(core, control_ops_util).items()}
lines = [f"{json.dumps(name)}: {json.dumps(found, sort_keys=True)}" for name, found in sorted(answers.items())]
Path(__file__).with_name("caffe2_control.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
