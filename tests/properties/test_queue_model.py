"""The services of quota and placement against the reference of the whole queue.

Random histories, of single pods and of gangs on several nodes, go through the handlers of both as
their loops drive them: a batch in, the facts of each to the other, until nothing is left to say.
The reference hears the same messages. Every
nomination, withdrawal and placement is held against it when it is made; sums, phases, budgets and
use over time after every batch; and what nobody was given, once all is quiet.
"""

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.queue_history import any_history, some_stay
from tests.support.queue_model import System

seeds = st.integers(0, 2**40)


def play(seed, *, staying=False, **options):
    system, history = System(**options), any_history(Random(seed))
    for step in some_stay(history, Random(seed)) if staying else history:
        system.play(step)


@settings(max_examples=80)
@example(seed=41_548, placement_first=False).via("hope by a share that grew in the same batch")
@example(seed=43_320, placement_first=False).via("who waited for his own, until others took it")
@example(seed=3_000_662, placement_first=False).via(
    "a nomination by the priority that comes later"
)
@given(seeds, st.booleans())
def test_the_services_decide_what_the_reference_decides(seed, placement_first):
    play(seed, placement_first=placement_first)


@settings(max_examples=60)
@given(seeds, st.booleans())
def test_the_same_when_all_that_came_is_one_batch(seed, placement_first):
    play(seed, placement_first=placement_first, single=False)


@settings(max_examples=60)
@example(seed=200_322, single=False).via("a spent budget, and lower priorities of the own queue")
@example(seed=1_333_864, single=False).via(
    "hope that a level above kept from him, when that was freed"
)
@given(seeds, st.booleans())
def test_the_same_in_a_narrow_window(seed, single):
    play(seed, single=single, window=(4, 1))


@settings(max_examples=60)
@example(seed=5_053, single=True).via("who can be evicted goes on when that policy changes")
@example(seed=711, single=False).via("who may borrow behind an equal one who may not")
@given(seeds, st.booleans())
def test_the_same_where_nobody_may_evict_some(seed, single):
    play(seed, single=single, staying=True)
