"""Where data comes from and goes to: readers and writers, datasets, queues, pipelines, worker threads, images."""
