"""What is kept on disk: tensors and other blobs, databases of them, checkpoints, predictors, archives of arrays.

Files are data: reading one runs nothing. What is written is there whole or not at all; what is damaged gives one error,
and memory in proportion to the file, never to what the file says of itself.
"""
