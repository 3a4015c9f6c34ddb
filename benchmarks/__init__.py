"""Running nets here, in PyTorch, JAX and Caffe2: `python -m benchmarks`."""
