"""The version of netgrad, read by the build."""

__version__ = "0.1.0"
