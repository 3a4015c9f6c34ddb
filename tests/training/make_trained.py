"""Runs the trainings of `trained.py` and writes how they end: ``python make_trained.py FILE.npz``.

With a Python that has the real Caffe2, this is how `trained.npz` is made; with one that has netgrad, what is compared
to it. A training that is refused is named, and left out.
"""

import sys

import numpy as np
import trained

if __name__ == "__main__":
    modules = trained.Caffe2()
    results = {}
    for name in trained.TRAININGS:
        try:
            found = trained.train(modules, name)
        except Exception as error:
            print(f"{name}: refused: {str(error).splitlines()[0][:300]}")
            continue
        results.update((f"{name}/{blob}", value) for blob, value in found.items())
    np.savez_compressed(sys.argv[1], **results)
    print(len(trained.TRAININGS), "trainings", len(results), "arrays")
