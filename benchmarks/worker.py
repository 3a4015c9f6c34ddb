"""One contender on one net, in a process of its own: `python -m benchmarks.worker CONTENDER NET`; prints JSON."""

import json
import resource
import statistics
import sys
import time


def main():
    contender, name = sys.argv[1:]
    if contender.startswith("torch"):
        from benchmarks import torch_nets

        run, times, planning = torch_nets.prepare(name, contender == "torch-last", contender == "torch-compile")
    else:
        from benchmarks import nets

        run, times, planning = nets.prepare(name)
    run()
    measured = []
    for _ in range(5):
        began = time.perf_counter()
        run()
        measured.append(1e3 * (time.perf_counter() - began) / times)
    print(json.dumps({"ms": statistics.median(measured), "planning_ms": 1e3 * planning,
                      "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


main()
