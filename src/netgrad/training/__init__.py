"""What turns a net into training: models with parameters, helpers that make layers, optimizers."""
