"""The error tree of the shell: what adapters raise, and what the loop does about it.

    MusterError
    |-- Transient            connection, deadlock, time-out: the same again, bounded
    |   `-- UnknownCommit    it may have happened: drop memory, reload, go on
    |-- Stale                epoch, inbox or version is not what was seen: reload, decide again
    |   `-- LeaseLost        another holder has the shard
    |-- SlotTaken            another process has this one's name: end, a person must choose
    |-- Rejected             the content of a unit is refused: halve the batch
    |-- TaskEnded            a task of the session ended by itself: begin a new life
    |-- LogLost              records that were not read are gone: wait, a person must choose
    |   `-- DatabaseOlder    ... or the log has records that the database knows nothing of
    |-- ClockStepped         the clock does not agree with the database's: wait until it does
    `-- ResourceVersionExpired  a watch cannot go on: list again

`events.codec.Malformed` (dead letter) is the fourth kind; a refusal of a workload is none of
these: it is a fact (ADR 2).
"""

from __future__ import annotations

from collections.abc import Mapping


class MusterError(Exception):
    """Base of every operating error."""


class Transient(MusterError):  # noqa: N818  # named for what to do about it
    """The same again, bounded."""


class UnknownCommit(Transient):
    """The connection broke during the commit: it may have happened."""


class Stale(MusterError):  # noqa: N818
    """What was seen is no longer so; reload and decide again."""


class LeaseLost(Stale):
    """Another holder has the shard; everything decided since is void."""


class SlotTaken(MusterError):  # noqa: N818
    """Another process runs under the slot of this one."""


class Rejected(MusterError):  # noqa: N818
    """The database refuses the content of a unit, or a row is larger than its topic takes."""


class TaskEnded(MusterError):  # noqa: N818
    """A task of the session ended by itself: what it kept going stands still."""


class ClockStepped(MusterError):  # noqa: N818
    """The clock of this machine and the database's do not agree: a time from it means nothing."""


class LogLost(MusterError):  # noqa: N818
    """Records of the log are gone that were not read; to read on would pass over them.

    `sentences`, by (topic, partition), tell what is lost, and what can be done.
    """

    def __init__(self, sentences: Mapping[tuple[str, int], str]) -> None:
        super().__init__("; ".join(sentences.values()))
        self.sentences = sentences


class DatabaseOlder(LogLost):
    """The log has records of a service that its database knows nothing of: it was restored."""


class ResourceVersionExpired(MusterError):  # noqa: N818
    """410: the watch cannot go on from there; list again."""
