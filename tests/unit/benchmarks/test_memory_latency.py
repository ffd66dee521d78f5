"""The bound that memory sets: every line is read once before any is read again."""

from __future__ import annotations

from tests.benchmarks.memory_latency import LINE_BYTES, chain, follow


def test_a_chain_goes_through_every_line_once() -> None:
    lines, words = 97, LINE_BYTES // 8
    following = chain(lines)

    places = [follow(following, 0, reads) for reads in range(lines)]

    assert sorted(places) == list(range(0, lines * words, words))
    assert follow(following, 0, lines) == 0
