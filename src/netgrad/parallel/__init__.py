"""One model on several devices: data parallelism within one process."""
