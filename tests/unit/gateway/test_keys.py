"""API keys: their form, what is stored, and how long a revoked one can still be used."""

import asyncio
import os

import pytest

from services.gateway.documents.keys import KeyRing, digest_of, mint, prefix_of
from services.gateway.http.authorisation import Role
from shared.ports.errors import Transient

PEPPER = b"pepper"


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic_seconds(self) -> float:
        return self.seconds


class Table:
    """`gateway.api_key` with one key."""

    def __init__(self, text: str, **columns: object) -> None:
        self.row = {
            "prefix": prefix_of(text),
            "digest": digest_of(text, PEPPER),
            "team": "red",
            "role": "member",
            "expires_at_ms": None,
            "revoked_at_ms": None,
            "label": "nightly-ci",
            **columns,
        }
        self.reads = 0
        self.away = False

    async def fetch(self, sql: str, prefix: str) -> list[dict]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.away:
            raise Transient("away")
        return [dict(self.row)] if prefix == self.row["prefix"] else []


@pytest.fixture
def text() -> str:
    return mint(os.urandom).text


def ring(table: Table, clock: Clock) -> KeyRing:
    return KeyRing(table, clock, PEPPER)


def test_a_key_has_256_random_bits_and_a_public_part():
    key = mint(lambda count: bytes(range(count)))

    assert key.text == "mk_aaaqeayeaudaocaj"[:3] + f"{key.prefix}_{key.text[12:]}"
    assert (len(key.prefix), len(key.text)) == (8, 3 + 8 + 1 + 43)
    assert prefix_of(key.text) == key.prefix


@pytest.mark.parametrize("broken", ["", "mk_", "mk_abcdefgh_short", "x" * 39, "mk_" + "a" * 60])
def test_what_is_no_key_has_no_public_part(broken):
    assert prefix_of(broken) is None


def test_a_secret_that_a_site_brings_itself_has_a_public_part_too():
    assert len(prefix_of("s" * 43) or "") == 8


async def test_a_key_is_recognised_and_a_wrong_secret_is_not(text):
    table = Table(text)
    keys = ring(table, Clock())

    subject = await keys.authenticate(text)
    wrong = await keys.authenticate(text[:-1] + ("A" if text[-1] != "A" else "B"))

    assert subject is not None
    assert (subject.team, subject.role, wrong) == ("red", Role.MEMBER, None)


async def test_an_expired_and_a_revoked_key_are_useless(text):
    expired = Table(text, expires_at_ms=100_000)
    revoked = Table(text, revoked_at_ms=1)

    assert await ring(expired, Clock()).authenticate(text) is None
    assert await ring(revoked, Clock()).authenticate(text) is None


async def test_a_revocation_takes_effect_within_five_seconds_without_asking_each_time(text):
    table, clock = Table(text), Clock()
    keys = ring(table, clock)
    await keys.authenticate(text)
    table.row["revoked_at_ms"] = 1

    useful_seconds = 0.0
    while await keys.authenticate(text) is not None:
        clock.seconds += 0.1
        useful_seconds += 0.1

    assert 0 < useful_seconds < 5
    assert table.reads < 5


async def test_many_requests_at_once_ask_the_database_once(text):
    table = Table(text)
    keys = ring(table, Clock())

    subjects = await asyncio.gather(*(keys.authenticate(text) for _ in range(50)))

    assert (table.reads, None in subjects) == (1, False)


async def test_without_a_database_a_known_key_works_for_seconds_and_then_nobody_is_let_in(text):
    table, clock = Table(text), Clock()
    keys = ring(table, clock)
    await keys.authenticate(text)
    table.away = True

    clock.seconds += 2
    still_known = await keys.authenticate(text)
    clock.seconds += 5

    assert still_known is not None
    with pytest.raises(Transient):
        await keys.authenticate(text)


def test_what_is_stored_depends_on_the_pepper(text):
    assert digest_of(text, b"a") != digest_of(text, b"b")
