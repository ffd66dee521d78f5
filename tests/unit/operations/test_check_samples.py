"""Facts that reports of use cause: the checker finds no record of what has caused them."""

from __future__ import annotations

from operations.check.causes import OF_SAMPLES
from shared.events.registry import BY_TOPIC, type_name
from shared.events.topics import HEALTH_FACTS, IDLENESS_FACTS


def test_all_that_is_told_of_samples_is_known_to_be():
    told = {type_name(one) for topic in (HEALTH_FACTS, IDLENESS_FACTS) for one in BY_TOPIC[topic]}

    assert told == OF_SAMPLES
