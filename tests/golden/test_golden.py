"""A few of the recorded histories in every run; `python -m tests.golden check` plays all."""

import pytest

from services.admission.handler import AdmissionHandler
from shared.runtime.handler import Outcome
from tests.golden.digests import SEEDS, differences, digest, load
from tests.golden.histories import HISTORIES

EVERY = 25
RECORDED = load()


@pytest.mark.parametrize("seed", range(0, SEEDS, EVERY))
@pytest.mark.parametrize("history", sorted(HISTORIES))
def test_decisions_are_the_recorded_ones(history: str, seed: int) -> None:
    """After a change that is meant: `python -m tests.golden record`, in the same commit."""
    found = {(history, seed): digest(history, seed)}

    assert [] == differences(found, RECORDED)


def test_every_history_is_recorded_for_every_seed() -> None:
    wanted = {(history, seed) for history in HISTORIES for seed in range(SEEDS)}

    assert wanted == set(RECORDED)


def test_one_message_less_is_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest("admission", 0)
    decide = AdmissionHandler.decide

    def forgetful(*arguments: object) -> Outcome:
        outcome = decide(*arguments)  # type: ignore[arg-type]
        del outcome.emits[:1]
        return outcome

    monkeypatch.setattr(AdmissionHandler, "decide", forgetful)

    assert before != digest("admission", 0)
