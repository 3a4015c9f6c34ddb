"""What is added to a net that is already built: clipping of gradients, numbers to look at."""
