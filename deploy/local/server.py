"""What the local broker and the local database have in common: one process, maybe not started."""

from __future__ import annotations

from deploy.local.processes import Program


class Server:
    """A process that is started on the data of a folder; every method returns when it is done."""

    _program: Program | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._program.pid if self._program else None

    @property
    def exit_code(self) -> int | None:
        """How the process ended."""
        return self._program.exit_code if self._program else None

    def alive(self) -> bool:
        """Whether the process runs."""
        return self._program is not None and self._program.alive()

    def wait(self) -> None:
        """Return when the process has ended."""
        if self._program:
            self._program.wait()

    def kill(self) -> None:
        """End it and all its children as a crash would."""
        if self._program:
            self._program.kill()
