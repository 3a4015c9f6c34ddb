"""``python -m netgrad`` is the command `netgrad`."""

from netgrad.cli import main

main()
