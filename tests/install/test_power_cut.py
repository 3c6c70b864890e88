"""Power cuts: an ext4 disk in a file, copied while ipexctl writes to it, then mounted and used."""

from __future__ import annotations

import base64
import csv
import hashlib
import random
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ipexctl.lab import LabSpec
from ipexctl.lab.cluster.machine_support import why_not
from ipexctl.lab.cluster.rung_limits import FULL
from ipexctl.machines.openssh.ssh_config import SshSettings
from ipexctl.machines.ssh.known_hosts import HostKey, KeyVerdict, Standing, entry_line, remember_key
from tests.install.conftest import Outcome, Shop, finish, make_wheel

SIZE = 96 << 20
HOLE = 1 << 16
FILES = 300
SEED = 20261121
pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]


@dataclass
class Disk:
    """A file that holds a file system, and where it is mounted."""

    image: Path
    at: Path

    @classmethod
    def made(cls, folder: Path, number: int = 0, size: int = SIZE) -> Disk:
        """A file of its own: the kernel may still hold the one before."""
        disk = cls(folder / f"disk{number}.img", folder / "disk")
        disk.at.mkdir(exist_ok=True)
        with disk.image.open("wb") as file:
            file.truncate(size)
        now = "lazy_itable_init=0,lazy_journal_init=0"
        subprocess.run(["mkfs.ext4", "-q", "-E", now, disk.image], check=True)
        return disk

    @contextmanager
    def mounted(self, image: Path | None = None) -> Iterator[None]:
        subprocess.run(["mount", "-o", "loop", image or self.image, self.at], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", self.at], check=True)

    def copied(self, to: Path) -> Path:
        """What a power cut would leave: read twice alike, so nothing was written meanwhile."""
        data, again = b"", self.image.read_bytes()
        while data != again:
            data, again = again, self.image.read_bytes()
        with to.open("wb") as file:
            for at in range(0, len(data), HOLE):
                if (piece := data[at : at + HOLE]).strip(b"\0"):
                    file.seek(at)
                    file.write(piece)
            file.truncate(len(data))
        return to


@dataclass
class DiskShop(Shop):
    """A shop whose root is on that disk, with an environment of many files."""

    disk: Disk

    @property
    def root(self) -> Path:
        return self.disk.at / "root"

    def stock(self) -> None:
        super().stock()
        files = {f"many/f{i}.py": random.Random(i).randbytes(2000) for i in range(FILES)}
        make_wheel(self.wheels, "many", "1.0", files)
        self.torch("2.13.0+cpu", "many==1.0")

    def repaired(self) -> Outcome:
        """After the doctor has looked at what there is."""
        told = self.ipexctl("doctor", "--root", str(self.root), "--json")
        assert told.code in (0, 1), told
        assert [host["name"] for host in told.document["hosts"]] == ["localhost"]
        return self.ipexctl(*self._install(()))

    def damaged(self) -> list[str]:
        """Files of environments with a mark that are not what their wheels had."""
        found = []
        for mark in self.root.glob("envs/*/.ipexctl-ok"):
            rows = 0
            for record in mark.parent.glob("lib/python3*/site-packages/*.dist-info/RECORD"):
                for name, digest, _ in csv.reader(record.read_text().splitlines()):
                    rows += 1
                    path = record.parents[1] / name
                    if digest and (not path.is_file() or digest != sha256(path)):
                        found.append(str(path))
            if rows < FILES:
                found.append(f"{mark.parent}: RECORDs with {rows} rows")
        return found


def sha256(path: Path) -> str:
    digest = hashlib.sha256(path.read_bytes()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@pytest.fixture
def shop(tmp_path: Path) -> DiskShop:
    if reason := why_not(FULL, LabSpec.plain(1)):
        pytest.skip(f"no disk can be mounted: {reason}")
    shop = DiskShop(tmp_path, Disk.made(tmp_path))
    shop.stock()
    return shop


def test_an_environment_is_on_the_disk_when_install_has_ended(shop: DiskShop) -> None:
    with shop.disk.mounted():
        assert shop.install().code == 0
        image = shop.disk.copied(shop.folder / "cut.img")
    with shop.disk.mounted(image):
        assert shop.current
        assert (shop.root / shop.current / ".ipexctl-ok").exists()
        assert shop.damaged() == []


@pytest.mark.soak
def test_after_a_power_cut_at_any_moment_install_completes_what_is_there(shop: DiskShop) -> None:
    moments = random.Random(SEED)
    images = []
    with shop.disk.mounted():
        began = time.monotonic()
        assert shop.install().code == 0  # fills the caches outside of the disk
        seconds = time.monotonic() - began
    for round_ in range(10):
        shop.disk = Disk.made(shop.folder, round_ + 1)
        with shop.disk.mounted():
            install = shop.start()
            for number in range(10):
                time.sleep(moments.uniform(0, seconds / 6))
                images.append(shop.disk.copied(shop.folder / f"{round_}-{number}.img"))
            assert finish(install).code == 0
    assert len(images) == 100
    for image in images:
        with shop.disk.mounted(image):
            assert shop.damaged() == [], image
            assert shop.repaired().code == 0, image
            assert (shop.root / shop.current / ".ipexctl-ok").exists()
            assert shop.damaged() == [], image
        image.unlink()


@pytest.mark.soak
def test_after_a_power_cut_at_any_moment_a_data_set_is_complete_or_pushed_again(
    shop: DiskShop,
) -> None:
    moments, images, sent = random.Random(SEED), [], {}
    for round_ in range(10):
        shop.disk = Disk.made(shop.folder, round_ + 1)
        sent[round_] = shop.folder / f"data{round_}"
        for i in range(FILES):
            path = sent[round_] / f"part{i % 7}" / f"f{i}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(random.Random(f"{round_} {i}").randbytes(1000 if i % 60 else 300_000))
        with shop.disk.mounted():
            push = subprocess.Popen(pushing(shop, sent[round_]), env=shop.environ(), text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
            for number in range(10):
                time.sleep(moments.uniform(0, 0.25))
                images.append((round_, shop.disk.copied(shop.folder / f"{round_}-{number}.img")))
            assert finish(push).code == 0
    assert len(images) == 100
    for round_, image in images:
        with shop.disk.mounted(image):
            assert not damaged_data(shop, sent[round_]), image
            done = shop.ipexctl(*pushing(shop, sent[round_])[3:])
            assert done.code == 0, (image, done.err)
            assert (shop.root / "data" / "made" / "current").is_symlink()
            assert not damaged_data(shop, sent[round_]), image
        image.unlink()


def pushing(shop: DiskShop, folder: Path) -> list[str]:
    words = ["data", "push", str(folder), "--as", "made", "--root", str(shop.root)]
    return [sys.executable, "-m", "ipexctl", *words]


def damaged_data(shop: DiskShop, sent: Path) -> list[str]:
    """Files of versions that runs would get which are not what was sent."""
    current = shop.root / "data" / "made" / "current"
    if not current.exists():
        return []
    there = {p.relative_to(sent): p for p in sent.rglob("*.bin")}
    kept = current.resolve() / "files"
    return [str(p) for p, own in there.items() if (kept / p).read_bytes() != own.read_bytes()]


READS = """
import hashlib, os, sys
found = hashlib.sha256()
for folder, names, files in os.walk("."):
    names.sort()
    for name in sorted(files):
        if name.endswith(".txt"):
            found.update(open(os.path.join(folder, name), "rb").read())
sys.exit(found.hexdigest() != sys.argv[1])
"""


@pytest.mark.soak
def test_after_a_power_cut_at_any_moment_a_run_has_the_files_that_it_was_sent(
    shop: DiskShop,
) -> None:
    moments, images = random.Random(SEED), []
    work = shop.folder / "code"
    work.mkdir()
    (work / "reads.py").write_text(READS)
    torch = site_packages(shop.folder / "env") / "torch"
    torch.mkdir()
    (torch / "__init__.py").write_text("")
    for round_ in range(10):
        shop.disk = Disk.made(shop.folder, round_ + 1)
        with shop.disk.mounted():
            for again in range(2):
                running = start_run(shop, work, change(work, f"{round_} {again}"))
                for number in range(5):
                    time.sleep(moments.uniform(0, 0.25))
                    image = shop.folder / f"{round_}-{again}-{number}.img"
                    images.append(shop.disk.copied(image))
                assert finish(running).code == 0
    assert len(images) == 100
    digest = change(work, "last")
    for image in images:
        with shop.disk.mounted(image):
            told = shop.ipexctl("doctor", "--root", str(shop.root), "--json")
            assert told.code in (0, 1), told
            for _ in range(2):
                words = running_words(shop, work, digest)
                done = shop.ipexctl(*words, VIRTUAL_ENV=str(shop.folder / "env"))
                assert done.code == 0, (image, done.err)
        image.unlink()


def site_packages(env: Path) -> Path:
    venv.create(env, symlinks=True)
    return next((env / "lib").glob("python3*")) / "site-packages"


def change(work: Path, seed: str) -> str:
    """Half of the files are other ones than before. What the script will find."""
    found, new = hashlib.sha256(), random.Random(seed)
    for i in range(FILES):
        path = work / f"part{i % 7}" / f"f{i:03}.txt"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or i % 2:
            path.write_bytes(new.randbytes(1000 if i % 60 else 300_000))
    for path in sorted(work.glob("part*/*.txt")):
        found.update(path.read_bytes())
    return found.hexdigest()


def running_words(shop: DiskShop, work: Path, digest: str) -> list[str]:
    return ["run", "--force", "-n", "2", "--root", str(shop.root), str(work / "reads.py"), digest]


def start_run(shop: DiskShop, work: Path, digest: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ipexctl", *running_words(shop, work, digest)],
        env={**shop.environ(), "VIRTUAL_ENV": str(shop.folder / "env")},
        cwd=shop.work, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.soak
def test_after_a_power_cut_at_any_moment_every_key_is_known_or_can_be_added(
    shop: DiskShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = shop.root / "state" / "known_hosts"
    monkeypatch.setattr("ipexctl.machines.ssh.known_hosts.own_known_hosts", lambda: path)
    moments, images, saved = random.Random(SEED), [], [0]
    keys = [a_key(number) for number in range(100)]

    def save() -> None:
        for number, key in enumerate(keys):
            remember_key(key)
            saved[0] = number + 1
            time.sleep(0.03)  # so that there are moments to choose from

    shop.disk = Disk.made(shop.folder, 1, 8 << 20)  # soon copied
    with shop.disk.mounted():
        saving = threading.Thread(target=save)
        saving.start()
        while saving.is_alive():
            time.sleep(moments.uniform(0, 0.05))
            images.append((saved[0], shop.disk.copied(shop.folder / f"key{len(images)}.img")))
    assert len(images) > 5
    for count, image in images:
        with shop.disk.mounted(image):
            there = path.read_bytes().split(b"\n") if path.exists() else []
            assert {entry_of(key) for key in keys[:count]} <= set(there), image
            for key in keys[count:]:
                remember_key(key)
            assert {entry_of(key) for key in keys} <= set(path.read_bytes().split(b"\n"))
        image.unlink()


def a_key(number: int) -> HostKey:
    answer = SshSettings("n1", "10.0.0.1", "me")
    blob = number.to_bytes(4, "big") * 20
    return HostKey(answer, (f"n{number}",), "ssh-ed25519", blob, KeyVerdict(Standing.UNKNOWN))


def entry_of(key: HostKey) -> bytes:
    return entry_line(key.names[0], key.key_type, key.blob).rstrip("\n").encode()


def test_a_key_that_trust_has_saved_is_on_the_disk(
    shop: DiskShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = shop.root / "state" / "known_hosts"
    monkeypatch.setattr("ipexctl.machines.ssh.known_hosts.own_known_hosts", lambda: saved)
    with shop.disk.mounted():
        for number in range(3):
            remember_key(a_key(number))
        image = shop.disk.copied(shop.folder / "cut.img")
    with shop.disk.mounted(image):
        lines = saved.read_text().splitlines()
        assert [line.split()[:2] for line in lines] == [
            [f"n{number}", "ssh-ed25519"] for number in range(3)
        ]
