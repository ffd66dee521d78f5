"""A service is ready when its handler has what it needs beside log and tables."""

import pytest

from shared.runtime.main import _has_what_it_needs


class Plain:
    name = "plain"


class Needing:
    name = "needing"

    def __init__(self, ready):
        self.ready = ready


@pytest.mark.parametrize(
    ("handler", "ready"), [(Plain(), True), (Needing(True), True), (Needing(False), False)]
)
def test_a_handler_that_needs_more_says_whether_it_has_it(handler, ready):
    assert ready is _has_what_it_needs(handler)
