"""How a net becomes its backward pass: walk, accumulation, verifier, explanation. `docs/backward.md` tells it all."""
