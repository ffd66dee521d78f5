"""What ends a command of `muster-ops` with one line and exit code 2: nothing can be said.

Exit code 1 is an answer (a violation, no plan, something lost), so that no failure may have it.
"""

from __future__ import annotations

from muster import errors as client_errors
from operations.configuration import NotConfigured
from shared.ports import errors


class Failure(Exception):  # noqa: N818  # not an error of the program
    """Ends the command; the text says what to do."""


class Refused(Failure):
    """A document is not what it must be; the text has field, value and rule."""


def known() -> tuple[type[Exception], ...]:
    """What a database, a broker, a file or an option may do; drivers are imported when asked."""
    import asyncpg
    from aiokafka.errors import KafkaError

    return (
        Failure,
        NotConfigured,
        client_errors.MusterError,
        errors.MusterError,
        KafkaError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        OSError,
        ValueError,
    )


def text_of(group: ExceptionGroup[Exception]) -> str:
    """The first failure of tasks that ran together.

    Raises:
        ExceptionGroup: one of them is an error of the program.
    """
    expected, others = group.split(known())
    if expected is None or others is not None:
        raise group
    first: Exception = expected
    while isinstance(first, ExceptionGroup):
        first = first.exceptions[0]
    return str(first)
