"""What a host answers to who sends it a folder: a run's project copy (remote/project), or a dataset
(remote/data)."""

from ipexctl.common.message import AbsolutePath, AnyText, Line, Message, Variant


class DatasetRow(Message):
    """A dataset on the host, as its current version is."""

    name: str
    version: str  # "": none is complete; then `files` and `bytes` count what is on the disk
    files: int
    bytes: int
    path: "AbsolutePath"
    hub: str  # its HF_HOME, "" if it is not a cache of the Hugging Face Hub
    source: "Line"  # where it was pushed from, in words; "": unknown
    old: int = 0  # older versions that runs use
    parts: int = 0  # pushes that were interrupted or are active


class FolderAnswer(Variant):
    """Whether a folder is there as its list of files says."""


class ListUnknown(FolderAnswer):
    """The host does not know the list: it has to come with the request."""


class FilesMissing(FolderAnswer):
    """The host lacks files of the list."""

    bits: "AnyText"  # in hexadecimal, one for each file: whether it is missing


class CopyMade(FolderAnswer):
    """The run's project copy is there."""

    cwd: "AbsolutePath"  # where ranks start
    mark: str  # hosts that share a home have the same one


class DatasetMade(FolderAnswer):
    """The version of the dataset is there."""

    dataset: DatasetRow
    same: bool  # nothing was changed
    repaired: int = 0  # files that differed from what was pushed
    replaced: "DatasetRow | None" = None  # the version before, if it was another one


class DatasetBusy(FolderAnswer):
    """Another push makes this version of the dataset."""


class ScriptFound(Message):
    """The script is on the host already (--no-sync)."""

    cwd: "AbsolutePath"  # where ranks start


class PathsAbsent(Message):
    """Which paths of a request certainly do not exist on the host."""

    absent: "list[int]"  # their indices


class DatasetsHeld(Message):
    """Datasets of the host, or those that the run uses there."""

    data: "list[DatasetRow]"


class DatasetSame(Message):
    """Whether a push would change nothing."""

    same: bool


class DatasetRemoved(Message):
    """What became of a dataset that was to be removed: all of its versions go, or none."""

    removed: "int | None" = None  # bytes; None: it stays, or was not there
    used: int = 0  # versions that runs use
    pushed: int = 0  # versions that are being pushed
