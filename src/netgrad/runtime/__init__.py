"""How a net runs: workspace, executor, backends."""
