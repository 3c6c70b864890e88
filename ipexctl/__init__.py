"""ipexctl: Linux CPU machines that answer to SSH, and a PyTorch script, to a running training."""

__version__ = "0.1.0"
