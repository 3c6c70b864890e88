"""Lines with which ranks say that a checkpoint is complete: `::checkpoint done`."""

import os

from ipexctl.remote.run_files import run_folders

LINE = b"::checkpoint done"
MOST = 1 << 20  # bytes of a rank's output that are read at a time: its end


class DoneLines:
    """The output of this host's ranks, read on from where the last look ended."""

    def __init__(self, run_folder: str) -> None:
        self.folder = run_folder
        self.read = {}  # type: dict[int, int]  # rank -> bytes
        self.begun = False

    def read_time(self) -> int:
        """Return when a rank printed the line since the last call, in ns; 0 if none did. What was
        printed before the first call is not read: a process that was killed is started again."""
        is_first, self.begun = not self.begun, True
        times = [self.look_at(rank) for rank in run_folders.ranks_with_logs(self.folder)]
        return 0 if is_first else max(times, default=0)

    def look_at(self, rank: int) -> int:
        try:
            path = run_folders.log_of(self.folder, rank)
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                info = os.fstat(file.fileno())
                begin = max(self.read.get(rank, 0), info.st_size - MOST)
                file.seek(begin)
                text = file.read(info.st_size - begin)
        except OSError:
            return 0
        end = text.rfind(b"\n") + 1
        self.read[rank] = begin + end
        is_said = any(line.strip() == LINE for line in text[:end].splitlines())
        return info.st_mtime_ns if is_said else 0
