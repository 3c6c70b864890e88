"""`ipexctl lab`: a practice cluster of real sshd hosts in namespaces of this machine."""

from ipexctl.lab.cluster.lab_spec import HostSpec, LabSpec
from ipexctl.lab.cluster.practice_cluster import Lab, LabHost

__all__ = ["HostSpec", "Lab", "LabHost", "LabSpec"]
