"""From a net to what runs: the plan, and the analyses that plans rest on. `docs/planning.md` explains the contract."""
