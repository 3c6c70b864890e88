"""The known failures, as they are planted on the hosts of one lab: a script for each host, and what
the doctor must say about it."""

from __future__ import annotations

from dataclasses import dataclass

from ipexctl.lab import HostSpec
from tests.simulated_cpu import cpu

ENV = "0123456789abcdef"


@dataclass(frozen=True)
class Seed:
    """`cause` is the failure in causes.toml, "" where it only slows or has no words of its own;
    `fix` is a part of what the doctor says to type."""

    cause: str
    id: str
    fix: str


def environment(*packages: str, whole: bool = True) -> str:
    """A made environment that is `current`: metadata of packages, and a python."""
    lines = [
        f"E=$H/.ipexctl/envs/{ENV}; S=$E/lib/python3.11/site-packages; mkdir -p $E/bin $S",
        f"ln -s envs/{ENV} $H/.ipexctl/current; ln -s /usr/bin/python3 $E/bin/python",
        *(f"mkdir -p $S/{p}.dist-info" for p in packages),
    ]
    return "\n".join([*lines, "touch $E/.ipexctl-ok"] if whole else lines)


def bashrc(*exports: str) -> str:
    """bash reads ~/.bashrc for commands over SSH too, where it does not return before."""
    return "cat > $H/.bashrc <<'END'\n" + "\n".join(f"export {e}" for e in exports) + "\nEND"


@dataclass(frozen=True)
class Planted:
    """A host: its shape, the root script that breaks it ($H is the home), what is seen of it."""

    script: str
    seeds: tuple[Seed, ...]
    shape: HostSpec = HostSpec()  # noqa: RUF009


HOSTS: dict[str, Planted] = {
    "plain": Planted("", ()),
    # torch, IPEX and bindings that do not belong together; an MPI that cannot work
    "versions": Planted(
        environment(
            "torch-2.7.0+cpu",
            "intel_extension_for_pytorch-2.8.0",
            "oneccl_bind_pt-2.6.0+cpu",
            "impi_rt-2021.19.0",
        ),
        (
            Seed("ipex-other-torch", "SOFT-001", "ipexctl install"),
            Seed("abi-mismatch", "SOFT-003", "ipexctl install"),
            Seed("libfabric-missing", "MPI-001", "impi-rt<2021.19"),
            Seed("libmpi-missing", "MPI-003", "ipexctl install"),
            Seed("mpiexec-not-in-path", "MPI-003", "ipexctl install"),
            Seed("libccl-missing", "MPI-005", "setvars.sh"),
        ),
    ),
    # an old stack, half built, with programs that may not be run
    "old": Planted(
        environment(
            "torch-2.1.0",
            "numpy-2.1.3",
            "impi_rt-2021.12.0",
            whole=False,
        )
        + """
        mkdir -p $E/lib/libfabric $S/torch/lib $H/.ipexctl/envs/.work-4711
        touch $E/lib/libmpi.so.12 $E/lib/libfabric/libfabric.so.1
        touch $E/bin/mpirun $E/bin/mpiexec.hydra $E/bin/hydra_bstrap_proxy
        chmod 644 $E/bin/mpirun $E/bin/mpiexec.hydra $E/bin/hydra_bstrap_proxy
        touch $S/torch/lib/libtorch_cuda.so $S/torch/lib/libiomp5.so $E/lib/libiomp5.so
        """,
        (
            Seed("gloo-bf16", "SOFT-007", "ipexctl install"),
            Seed("numpy-two", "SOFT-009", "pip install 'numpy<2'"),
            Seed("python-not-there", "SOFT-012", "ipexctl install"),
            Seed("two-openmps", "SOFT-017", "pip uninstall intel-openmp"),
            Seed("no-fabric-provider", "MPI-002", "ipexctl install"),
            Seed("proxy-not-there", "MPI-004", "chmod +x"),
            Seed("bootstrap-proxy", "MPI-004", "hydra_bstrap_proxy"),
        ),
    ),
    # an account whose start-up file is slow, and sets limits and a folder of another machine
    "account": Planted(
        bashrc(
            "TMPDIR=/opt/nowhere/tmp",
            "http_proxy=http://user:canary@proxy:3128",
        )
        + "\necho 'ulimit -n 128; ulimit -u 250; ulimit -f 100000; ulimit -s 1024; sleep 3.5'"
        + " >> $H/.bashrc",
        (
            Seed("temporary-folder", "TMP-001", "TMPDIR"),
            Seed("nofile", "LIM-001", "nofile"),
            Seed("nproc", "LIM-003", "nproc"),
            Seed("", "LIM-008", "fsize"),
            Seed("", "LIM-009", "stack"),
            Seed("", "SOFT-028", "case $-"),
            Seed("", "NET-024", "no_proxy"),
        ),
    ),
    # an old IPEX without torch, in the environment that the account has activated
    "activated": Planted(
        """
        mkdir -p $H/venv/lib/python3.11/site-packages/intel_extension_for_pytorch-1.12.0.dist-info
        touch $H/venv/pyvenv.cfg
        """
        + bashrc("VIRTUAL_ENV=$HOME/venv"),
        (Seed("torch-not-installed", "SOFT-004", "ipexctl install"),),
        HostSpec(covers=cpu("amx")),
    ),
    # names, ports and interfaces
    "network": Planted(
        """
        sed -i '/localhost/d; s/.* network$/127.0.1.1 network/' /etc/hosts
        echo '10.9.9.9 localhost' >> /etc/hosts
        printf 'hosts: files\\n' > /etc/nsswitch.conf
        # below 29501: `names` drops answers to 29501-29599, too
        echo '29001 29500' > /proc/sys/net/ipv4/ip_local_port_range
        ip link set eth0 mtu 1200
        ip link add docker0 type veth peer name inside
        ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up; ip link set inside up
        setsid python3 -ISc 'import socket,time; s=socket.socket();
s.setsockopt(1,2,1); s.bind(("",29500)); s.listen(1); time.sleep(600)' </dev/null >/dev/null 2>&1 &
        """,
        (
            Seed("gloo-loopback", "NET-001", "instead of the line 127.0.1.1"),
            Seed("name-unknown", "NET-007", "127.0.0.1 localhost"),
            Seed("master-port-taken", "NET-016", "ss -ltnp"),
            Seed("gloo-mesh", "NET-018", "ip_local_port_range"),
            Seed("gloo-mesh", "NET-014", "ip link set eth0 mtu 1500"),
        ),
    ),
    "sealed": Planted(
        """
        mount -t tmpfs -o ro tmpfs /mnt; ln -s /mnt $H/.ipexctl
        mount -t tmpfs -o ro tmpfs /tmp; mount -t tmpfs -o ro tmpfs /dev/shm
        """,
        (
            Seed("", "DISK-001", "--root"),
            Seed("", "TMP-001", "TMPDIR"),
            Seed("", "SHM-004", ""),
        ),
    ),
    "dns": Planted(
        """
        printf 'hosts: files dns\\n' > /etc/nsswitch.conf
        rm -f /etc/resolv.conf; printf 'nameserver 192.0.2.1\\n' > /etc/resolv.conf
        sed -i '/ dns$/d' /etc/hosts
        """,
        (Seed("name-unknown", "NET-029", "/etc/resolv.conf"),),
    ),
    "names": Planted(
        """
        printf 'hosts: files\\n' > /etc/nsswitch.conf
        sed -i '/ names$/d' /etc/hosts
        mkdir -p /etc/ufw; printf 'ENABLED=yes\\n' > /etc/ufw/ufw.conf
        ip link add docker0 type veth peer name inside
        ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up; ip link set inside up
        ip rule add ipproto 6 dport 29501-29599 prohibit
        """,
        (
            Seed("gloo-loopback", "NET-005", "/etc/hosts"),
            Seed("master-unreachable", "NET-020", "nft list ruleset"),
        ),
    ),
    "stale": Planted(
        """
        sed -i 's/.* stale$/10.99.0.2 stale/' /etc/hosts
        printf 'hosts: files\\n' > /etc/nsswitch.conf
        su trainer -c 'head -c 4096 /dev/zero > /dev/shm/99999:0:0'
        """,
        (
            Seed("gloo-mesh", "NET-006", "/etc/hosts"),
            Seed("shm-full", "SHM-001", "mount -o remount"),
            Seed("ccl-abort-at-exit", "SOFT-023", "/dev/shm"),
            Seed("disk-full", "DISK-003", "--root"),
            Seed("disk-full", "DISK-004", "--root"),
        ),
        HostSpec(shm=64 << 10, disk=64 << 20),
    ),
    "ancient": Planted(
        "rm -f /usr/local/bin/python* /usr/bin/python*",
        (
            Seed("cpu-too-old", "CPU-001", "leave this host out"),
            Seed("python-not-there", "PY-001", "install"),
        ),
        HostSpec(covers=cpu("sse")),
    ),
    "walled": Planted(
        """
        ip route add prohibit $PLAIN
        mkdir $H/.ipexctl; mount -t tmpfs -o noexec tmpfs $H/.ipexctl
        """,
        (
            Seed("bootstrap-proxy", "NET-003", "on walled: sudo nft"),
            Seed("noexec", "DISK-002", "--root"),
        ),
    ),
    # hosts that nobody can ask: the slug stands where the id would
    "silent": Planted("", (Seed("ssh-refused", "connection-refused", "systemctl status ssh"),)),
    "changed": Planted("", (Seed("host-key", "host-key-changed", "ssh-keygen"),)),
    "stranger": Planted("", (Seed("host-key", "host-key-unknown", "ipexctl trust"),)),
    "keyless": Planted(
        "rm -f /etc/ssh/authorized_keys $H/.ssh/authorized_keys",
        (Seed("ssh-no-key", "login-failed", "ssh-copy-id"),),
    ),
}

FAULTS = {"silent": "no-sshd", "changed": "changed-key"}

# About several hosts: (cause, id, a part of the evidence, a part of the fix).
TOGETHER = (
    ("abi-mismatch", "SOFT-015", "2.7.0+cpu on versions", "ipexctl install"),
    ("wrong-nic", "NET-012", "172.17.0.1 is docker0 on", "FI_TCP_IFACE"),
    ("gloo-mesh", "NET-013", "1200 on network", "mtu 1500"),
)
