"""One lab host with every kind of login we know, and the ssh_config by which they are reached."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ipexctl.lab import Lab
from tests.ssh.conftest import keygen

PASSWORD = "correct horse"
PASSPHRASE = "battery staple"
ESC = "\x1b[31m"
V6 = "fd00:1b:ec::2"

# Each is one more sshd on the host: its port, and its lines before the common ones.
SSHDS = {
    "odd-port": (2222, ""),
    "password": (2201, "PubkeyAuthentication no\nPasswordAuthentication yes\n"),
    "keyboard": (
        2202,
        "PubkeyAuthentication no\nUsePAM yes\nKbdInteractiveAuthentication yes\n",
    ),
    "both": (2203, "AuthenticationMethods publickey,password\nPasswordAuthentication yes\n"),
    "certified": (2204, "AuthorizedKeysFile none\nTrustedUserCAKeys /etc/ssh/m/user_ca.pub\n"),
    "banner": (2206, "Banner /etc/ssh/m/banner\n"),
    "forced": (2208, "ForceCommand echo only backups here\n"),
    "sftp-only": (2209, "ForceCommand internal-sftp\n"),
}
SHELLS = {
    "csh": "/usr/bin/tcsh",
    "fish": "/usr/bin/fish",
    "false": "/bin/false",
    "nologin": "/usr/sbin/nologin",
    "noisy": "/bin/bash",
    "rude": "/bin/bash",
    "reads": "/bin/bash",
    "reads-zsh": "/bin/zsh",
    "leaves": "/bin/bash",
    "slow": "/bin/bash",
}
# What listens on these ports is no sshd: seconds between bytes, and the bytes.
PORTS = {"silent": (2301, 0.0, b""), "garbage": (2302, 0.0, b"220 mail\x1b[31m ESMTP\r\n")}
PORTS |= {"drip": (2303, 0.5, b"not yet SSH " * 99)}
_SERVE = """
import socket, sys, threading, time
def serve(c, pause, data):
    try:
        for i in range(len(data) if pause else 1):
            c.sendall(data[i:i+1] if pause else data); time.sleep(pause)
        if data: c.close()
        else: time.sleep(600)
    except OSError: pass
def listen(port, pause, data):
    s = socket.create_server(("0.0.0.0", port))
    while True:
        threading.Thread(target=serve, args=(s.accept()[0], pause, data), daemon=True).start()
for word in sys.argv[1:]:
    port, pause, data = eval(word)
    threading.Thread(target=listen, args=(port, pause, data)).start()
"""
_COMMON = """HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /etc/ssh/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PidFile none
LogLevel VERBOSE
"""


@dataclass(frozen=True)
class Matrix:
    lab: Lab
    folder: Path  # keys and ssh_config of the user
    missing: frozenset[str]  # login shells that this machine has not

    @property
    def address(self) -> str:
        return self.lab.hosts["node01"].address

    def config(self, *, known: str = "") -> Path:
        """All names of the matrix; `known` instead of what known_hosts should say."""
        (self.folder / "known_hosts").write_text(known or self._known())
        path = self.folder / "ssh_config"
        blocks = [f"Host {name}\n{lines}" for name, lines in self._blocks().items()]
        path.write_text("".join(blocks) + self._rest())
        return path

    def _known(self) -> str:
        kind, key = self.lab.known_hosts.read_text().split()[1:3]
        return f"* {kind} {key}\n"

    def _blocks(self) -> dict[str, str]:
        at = f"  HostName {self.address}\n"
        ports = {**SSHDS, **{name: (port, "") for name, (port, _, _) in PORTS.items()}}
        blocks = {name: f"{at}  Port {port}\n" for name, (port, _) in ports.items()}
        blocks |= {name: f"{at}  User {name}\n" for name in SHELLS}
        named = f"  IdentityFile {self.folder}/certified\n"
        blocks["certified"] += named + f"  CertificateFile {self.folder}/elsewhere-cert.pub\n"
        blocks["encrypted"] = f"{at}  IdentityFile {self.folder}/encrypted\n"
        blocks["v6"] = f"  HostName {V6}\n"
        blocks["hop1"] = at
        blocks["hop2"] = f"  HostName 127.0.0.1\n  Port {SSHDS['odd-port'][0]}\n  ProxyJump hop1\n"
        blocks["behind-one"] = "  HostName 127.0.0.1\n  ProxyJump hop1\n"
        blocks["behind-two"] = "  HostName 127.0.0.1\n  ProxyJump hop2\n"
        blocks["closed"] = f"{at}  Port 2399\n"
        blocks["nowhere"] = "  HostName no-such-host.invalid\n"
        return blocks

    def _rest(self) -> str:
        return (
            f"Host *\n  User {self.lab.user}\n"
            "  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n"
            f"Host * !encrypted !certified\n  IdentityFile {self.lab.identity}\n"
        )

    def root(self, script: str) -> str:
        """A shell script on the host, as root."""
        done = self.lab.run_in("node01", ["sh", "-ec", script])
        assert done.returncode == 0, done.stderr
        return done.stdout


def set_up(lab: Lab, folder: Path) -> Matrix:
    missing = frozenset(name for name, path in SHELLS.items() if not Path(path).exists())
    matrix = Matrix(lab, folder, missing)
    _make_keys(matrix)
    matrix.root("mkdir -p /etc/ssh/m")
    _put(matrix, "/etc/ssh/m/user_ca.pub", (folder / "user_ca.pub").read_text())
    _put(matrix, "/etc/ssh/m/banner", f"{ESC}[bold red]welcome[/]\x07\n")
    public = (folder / "encrypted.pub").read_text()
    matrix.root(f"echo '{public.strip()}' >> /etc/ssh/authorized_keys")
    _make_accounts(matrix)
    _start(matrix)
    return matrix


def _make_keys(matrix: Matrix) -> None:
    folder = matrix.folder
    for name in ("user_ca", "other_key", "certified"):
        keygen(folder / name)
    keygen(folder / "encrypted", "-N", PASSPHRASE)
    argv = ["ssh-keygen", "-q", "-s", folder / "user_ca", "-I", "test", "-n", matrix.lab.user]
    subprocess.run([*argv, folder / "certified.pub"], check=True, capture_output=True)
    shutil.move(folder / "certified-cert.pub", folder / "elsewhere-cert.pub")


def _make_accounts(matrix: Matrix) -> None:
    argv = ["openssl", "passwd", "-6", PASSWORD]
    made = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    matrix.root(f"sed -i 's|^{matrix.lab.user}:[^:]*|{matrix.lab.user}:{made}|' /etc/shadow")
    for number, (name, shell) in enumerate(SHELLS.items(), 5000):
        matrix.root(
            f"echo '{name}:x:{number}:{number}::/home/{name}:{shell}' >> /etc/passwd\n"
            f"echo '{name}:*:19000:0:99999:7:::' >> /etc/shadow\n"
            f"mkdir -p /home/{name}; chown {number} /home/{name}"
        )
    noise = "head -c 100000 /dev/zero | tr '\\0' x; echo; head -c 100000 /dev/zero >&2\n"
    _put(matrix, "/home/noisy/.bashrc", noise)
    _put(matrix, "/home/rude/.bashrc", f"printf '{ESC}[bold red]go away\\a' >&2; exit 3\n")
    _put(matrix, "/home/reads/.bashrc", "# read\nexport A=b\n  read -r answer\n")
    _put(matrix, "/home/reads-zsh/.zshenv", "read answer\n")
    _put(matrix, "/home/leaves/.bashrc", "case $- in *i*) ;; *) exit 0;; esac\n")
    _put(matrix, "/home/slow/.bashrc", "sleep 3.5\n")


def _start(matrix: Matrix) -> None:
    link = matrix.lab.link
    subprocess.run(
        ["ip", "-6", "addr", "add", "fd00:1b:ec::1/64", "dev", link, "nodad"], check=True
    )
    matrix.root(f"ip -6 addr add {V6}/64 dev eth0 nodad")
    for name, (port, lines) in SSHDS.items():
        _put(matrix, f"/etc/ssh/m/{name}", f"Port {port}\n{lines}{_COMMON}")
        matrix.root(f"/usr/sbin/sshd -f /etc/ssh/m/{name} -E /run/lab/{name}.log")
    _put(matrix, "/run/serve.py", _SERVE)
    words = " ".join(f'"{spec!r}"' for spec in PORTS.values())
    matrix.root(f"setsid python3 /run/serve.py {words} >/dev/null 2>&1 </dev/null &")


def _put(matrix: Matrix, path: str, text: str) -> None:
    pid = matrix.lab.hosts["node01"].pid
    file = Path(f"/proc/{pid}/root{path}")
    file.write_text(text)
    file.chmod(0o600 if path.endswith("_key") else 0o644)
