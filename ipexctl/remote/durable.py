"""What a power cut must not take: bytes are on the disk before the name that vouches for them."""

import ctypes
import os
from contextlib import suppress

BOOT = "/proc/sys/kernel/random/boot_id"


def sync_disk(path):
    """All that was written to the file system of `path` is on its disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        try:
            failed = ctypes.CDLL(None, use_errno=True).syncfs(fd)
        except (AttributeError, OSError):  # a C library without it
            os.sync()
            return
        if failed:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(fd)


def sync_folder(path):
    """The names in the folder are on its disk; their files have been before."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError:  # a file system that cannot do it for folders
        pass
    finally:
        os.close(fd)


def rename(fresh, path):
    """The name is on the disk when this returns."""
    os.rename(fresh, path)
    sync_folder(os.path.dirname(path))


def write_file(path, datas, head=b"", sync=False):
    """Replace a file: it is the old one or the new one; with `sync` also after a power cut."""
    part = "%s.%d-%s" % (path, os.getpid(), os.urandom(4).hex())
    try:
        with open(part, "wb") as file:
            file.write(head)
            for data in datas:
                file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.rename(part, path)
        if sync:
            sync_folder(os.path.dirname(path))
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise


def boot_id():
    """Since when this host runs, "" if it does not tell: what was not synced is good only since."""
    try:
        with open(BOOT) as file:
            return file.read().strip()
    except OSError:
        return ""
