"""Programs that measure how fast nets run: convolutional nets, LSTMs, embeddings."""
