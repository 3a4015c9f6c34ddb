"""Caffe2's `embedding_generation_benchmark`."""

from netgrad.facade import facade

facade(__name__, {
    "netgrad.training.benchmarks.embeddings": """
        Benchmark Caffe2EmbeddingGeneration GetArgumentParser create_model generate_data
        generate_embedding_table log""",
})

if __name__ == "__main__":
    from netgrad.training.benchmarks.embeddings import main

    main()
