"""Figures of many things as arrays: rows that come and go, names as numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
ROWS_AT_FIRST: Final = 256


class Rows:
    """Columns of one length with a list of free rows."""

    def __init__(self, *names: str) -> None:
        self.columns: dict[str, Column] = {
            name: np.zeros(ROWS_AT_FIRST, dtype=np.int64) for name in names
        }
        self._free: list[int] = []
        self.used = 0
        """Rows in use or free again; the rest was never used."""

    def take(self, **values: int) -> int:
        """A row with these values; columns not named are 0."""
        if self._free:
            row = self._free.pop()
        else:
            row = self.used
            self.used += 1
            if row >= len(next(iter(self.columns.values()))):
                for name, column in self.columns.items():
                    self.columns[name] = np.concatenate([column, np.zeros_like(column)])
        for name, column in self.columns.items():
            column[row] = values.get(name, 0)
        return row

    def drop(self, row: int) -> None:
        """Nothing is in `row` any more: all columns are 0."""
        for column in self.columns.values():
            column[row] = 0
        self._free.append(row)

    def __getitem__(self, name: str) -> Column:
        """A column, as long as rows were ever used."""
        return self.columns[name][: self.used]


class Codes:
    """Names as small numbers; 0 is for no name."""

    def __init__(self) -> None:
        self.names: list[str] = [""]
        self._codes: dict[str, int] = {}

    def of(self, name: str) -> int:
        """The number of `name`, a new one if it has none."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
        return code

    def find(self, name: str) -> int:
        """The number of `name`; -1 if no occupant has it."""
        return self._codes.get(name, -1)
