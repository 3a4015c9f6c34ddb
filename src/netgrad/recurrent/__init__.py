"""Recurrent networks: step nets and their gradients, how they run, cells, layers, attention, random fields."""
