"""What takes too long is ended, and what fails in time is not ended later."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from caffe2.python import timeout_guard


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


def test_a_call_that_hangs_is_interrupted_and_its_stack_printed():
    done = run("import time\nfrom caffe2.python import timeout_guard\n"
               "def hanging():\n    time.sleep(30)\n"
               "try:\n    with timeout_guard.CompleteInTimeOrDie(0.1): hanging()\n"
               "except KeyboardInterrupt: print('interrupted')\n")
    assert done.stdout == "interrupted\n"
    assert "in hanging" in done.stderr and "did not finish within 0.1 s" in done.stderr


def test_a_process_that_does_not_stop_is_aborted():
    done = run("import signal, time\nfrom netgrad.tools import time_limits\ntime_limits.GRACE = 0.1\n"
               "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
               "time_limits.EuthanizeIfNecessary(0.1)\ntime.sleep(30)\n")
    assert done.returncode < 0 and "it is aborted" in done.stderr


def test_the_watch_ends_with_the_block_however_that_ends():
    with timeout_guard.CompleteInTimeOrDie(60):
        pass
    with pytest.raises(ValueError), timeout_guard.CompleteInTimeOrDie(60):
        raise ValueError
    for thread in threading.enumerate():
        if thread.name == "timeout_guard":
            thread.join(5)
            assert not thread.is_alive()
