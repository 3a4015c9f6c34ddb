"""Caffe2's `lstm_benchmark`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.benchmarks.lstm": "Benchmark Caffe2LSTM GetArgumentParser create_model generate_data log",
})

if __name__ == "__main__":
    from netgrad.training.benchmarks.lstm import main

    main()
