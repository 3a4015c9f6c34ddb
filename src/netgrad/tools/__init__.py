"""Tools that read, change, print and debug nets."""
