"""Asks the real Caffe2 for the nets of `golden.py`: ``python make_golden.py FOLDER``, with a Python that has it."""

import os
import sys

import golden
from google.protobuf import text_format

if __name__ == "__main__":
    from caffe2.python import brew, core, model_helper, optimizer

    for name, make in golden.MODELS.items():
        core.Net._net_names_used.clear()
        model = make(brew, core, model_helper, optimizer)
        for part, net in (("init", model.param_init_net), ("net", model.net)):
            for op in net.Proto().op:
                op.ClearField("debug_info")
            with open(os.path.join(sys.argv[1], f"{name}.{part}.pbtxt"), "w") as file:
                file.write(text_format.MessageToString(net.Proto()))
