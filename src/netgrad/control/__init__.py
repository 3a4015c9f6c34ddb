"""What runs when and where: net builders, tasks and their groups."""
