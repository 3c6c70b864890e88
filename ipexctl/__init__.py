"""ipexctl: run PyTorch scripts on Linux CPU machines over SSH."""

__version__ = "0.1.0"
