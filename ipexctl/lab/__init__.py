"""A practice cluster of real sshd hosts in namespaces of this machine."""

from ipexctl.lab.lab import Lab, LabHost
from ipexctl.lab.spec import HostSpec, LabSpec

__all__ = ["HostSpec", "Lab", "LabHost", "LabSpec"]
