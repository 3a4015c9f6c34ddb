"""Asks Caffe2 what it makes of the varied examples: ``python make_answers.py PYTHON_OF_CAFFE2``.

Writes `caffe2_answers.json.gz`: operator -> variation -> null where Caffe2 refuses it, "crashed" where its process
ends, or its outputs, each [dtype, shape, values] (null: no tensor). Operators that Caffe2 does not have are left
out. This file runs twice: under Python with netgrad, which writes the questions, and under Caffe2's, which answers.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ANSWERS = Path(__file__).with_name("caffe2_answers.json.gz")


def encoded(value):
    if value.dtype == object:
        return ["string", list(value.shape), [base64.b64encode(x if isinstance(x, bytes) else str(x).encode()).decode()
                                              for x in value.ravel()]]
    return [str(value.dtype), list(value.shape), base64.b64encode(value.tobytes()).decode()]


def decoded(entry):
    dtype, shape, data = entry
    if dtype == "string":
        return np.array([base64.b64decode(x) for x in data], dtype=object).reshape(shape)
    return np.frombuffer(base64.b64decode(data), dtype).reshape(shape)


def readable(value):
    """[dtype, shape, values] of a fetched blob, to seven digits; None for what is no array."""
    if isinstance(value, bytes):
        value = np.array(value, dtype=object)
    if not isinstance(value, np.ndarray):
        return None
    if value.dtype == object:
        return ["string", list(value.shape), [x.decode("latin-1") if isinstance(x, bytes) else str(x)
                                              for x in value.ravel()]]
    digits = 12 if value.dtype.itemsize == 8 else 7
    values = [float("{:.{}g}".format(x, digits)) if value.dtype.kind == "f" else int(x) for x in value.ravel()]
    return [str(value.dtype), list(value.shape), values]


def questions():
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from varied_examples import declarations, variations

    return {type: [[name, base64.b64encode(op.SerializeToString()).decode(),
                    {blob: encoded(value) for blob, value in feeds.items()}] for name, op, feeds in variations(d)]
            for type, d in declarations().items()}


def answer(asked):
    """Under Caffe2: each operator in processes of its own, since some end them."""
    from caffe2.proto import caffe2_pb2
    from caffe2.python import workspace

    registered = set(workspace.RegisteredOperators())

    def ask(op, feeds):
        workspace.ResetWorkspace()
        for blob, value in feeds.items():
            workspace.FeedBlob(blob, decoded(value))
        definition = caffe2_pb2.OperatorDef.FromString(base64.b64decode(op))
        try:
            workspace.RunOperatorOnce(definition)
            return [readable(workspace.FetchBlob(name)) if name else None for name in definition.output]
        except Exception:
            return None

    found = {}
    for type, cases in asked.items():
        if type not in registered:
            continue
        answers, left = {}, cases
        while left:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                os.close(reading)
                with os.fdopen(writing, "w") as out:
                    for name, op, feeds in left:
                        signal.alarm(20)
                        out.write(json.dumps([name, ask(op, feeds)]) + "\n")
                        out.flush()
                os._exit(0)
            os.close(writing)
            with os.fdopen(reading) as lines:
                for line in lines:
                    name, outputs = json.loads(line)
                    answers[name] = outputs
            os.waitpid(child, 0)
            left = [case for case in left if case[0] not in answers]
            if left:
                answers[left[0][0]] = "crashed"
                left = left[1:]
        found[type] = answers
    return found


if __name__ == "__main__":
    if len(sys.argv) == 3:
        Path(sys.argv[2]).write_text(json.dumps(answer(json.loads(Path(sys.argv[1]).read_text()))))
    else:
        with tempfile.TemporaryDirectory() as folder:
            ask_in, told_in = Path(folder, "asked.json"), Path(folder, "told.json")
            ask_in.write_text(json.dumps(questions()))
            subprocess.run([sys.argv[1], __file__, str(ask_in), str(told_in)], check=True, cwd=folder,
                           stderr=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""})
            told = json.loads(told_in.read_text())
        text = "{\n" + ",\n".join(f"{json.dumps(t)}: {json.dumps(found, separators=(',', ':'))}"
                                  for t, found in sorted(told.items()))
        ANSWERS.write_bytes(gzip.compress(f"{text}\n}}\n".encode(), mtime=0))
