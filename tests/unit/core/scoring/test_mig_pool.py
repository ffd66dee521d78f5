"""Where an instance goes: prices by what is asked and what there is room for."""

from __future__ import annotations

from shared.core.model.mig.table import MigTable
from shared.core.model.mig.tables import table_for
from shared.core.scoring.learned_counts import REFRESH_MAX, TOTAL_MAX
from shared.core.scoring.mig_mix import LEARNED_MIN, ProfileMix
from shared.core.scoring.mig_pool import MigPool, MigPools


def a_table(product: str = "A100-80GB") -> MigTable:
    found = table_for(product, 81_920)
    assert found is not None
    return found


def a_mix(**counts: int) -> ProfileMix:
    """One in force, with the counts given; `g3` stands for 3g.40gb and so on."""
    names = {"g1": "1g.10gb", "g2": "2g.20gb", "g3": "3g.40gb", "g4": "4g.40gb", "g7": "7g.80gb"}
    mix = ProfileMix()
    for name, count in counts.items():
        mix.note(names[name], count, placed=True)
    return mix


def a_pool(mix: ProfileMix, *states: int, table: MigTable | None = None) -> MigPool:
    pool = MigPool(table or a_table(), mix)
    for state in states:
        pool.put(state)
    return pool


def best(pool: MigPool, name: str) -> tuple[int, int]:
    """(state, start) of the cheapest offer."""
    _, state, start = next(pool.offers(name))
    return state, start


# ── the pool ──


def test_a_3g_goes_high_so_that_a_4g_still_fits() -> None:
    assert best(a_pool(ProfileMix(), 0), "3g.40gb") == (0, 4)


def test_a_used_gpu_comes_before_an_idle_one() -> None:
    table = a_table()
    used = table.profiles["1g.10gb"].occupy(0, 6)

    assert best(a_pool(ProfileMix(), 0, used), "1g.10gb")[0] == used


def test_small_instances_go_beside_small_ones_not_beside_a_large_one() -> None:
    """When the 4g ends its half is free at once; that of two 1g seldom is."""
    table = a_table()
    small = table.profiles["1g.10gb"]
    beside_small = small.occupy(small.occupy(0, 6), 5)
    beside_large = table.profiles["2g.20gb"].occupy(0, 4)
    assert beside_small.bit_count() - beside_large.bit_count() == 1, "the same number of slices"

    pool = a_pool(ProfileMix(), beside_small, beside_large)

    assert best(pool, "1g.10gb")[0] == beside_small


def room_for_a_3g_or_a_2g(table: MigTable) -> tuple[int, int]:
    """Two states: a 1g takes the room of a 3g from the one, of a 2g from the other."""
    for_3g = table.profiles["4g.40gb"].occupy(0, 0)
    for_2g = table.profiles["3g.40gb"].occupy(table.profiles["2g.20gb"].occupy(0, 2), 4)
    return for_3g, for_2g


def test_what_is_asked_for_is_spared() -> None:
    for_3g, for_2g = room_for_a_3g_or_a_2g(a_table())

    assert best(a_pool(a_mix(g3=LEARNED_MIN), for_3g, for_2g), "1g.10gb")[0] == for_2g
    assert best(a_pool(a_mix(g2=LEARNED_MIN), for_3g, for_2g), "1g.10gb")[0] == for_3g


def test_what_is_plenty_is_not_spared() -> None:
    for_3g, for_2g = room_for_a_3g_or_a_2g(a_table())
    mix = a_mix(g3=LEARNED_MIN, g2=3 * LEARNED_MIN)

    assert best(a_pool(mix, for_3g, *[for_2g] * 20), "1g.10gb")[0] == for_2g
    assert best(a_pool(mix, *[for_3g] * 20, for_2g), "1g.10gb")[0] == for_3g


def test_every_state_is_offered_once_the_cheapest_first() -> None:
    table = a_table()
    states = [0, table.profiles["1g.10gb"].occupy(0, 6), table.profiles["4g.40gb"].occupy(0, 0)]
    pool = a_pool(ProfileMix(), *states, states[0])

    offers = list(pool.offers("2g.20gb"))

    assert offers == sorted(offers)
    assert sorted(state for _, state, _ in offers) == sorted(states)
    assert [state for _, state, _ in pool.offers("7g.80gb")] == [0]


def test_what_a_pool_has_seen_before_decides_nothing() -> None:
    small = a_table().profiles["1g.10gb"]
    states = [small.occupy(0, start) for start in range(7)]
    pool, other = a_pool(ProfileMix(), *states), a_pool(ProfileMix(), states[-1])
    assert best(other, "2g.20gb")
    for state in reversed(states[:-1]):
        other.put(state)
        assert best(other, "2g.20gb"), "asked in between, so that it learns one at a time"

    offers = list(pool.offers("2g.20gb"))

    assert offers == list(other.offers("2g.20gb"))
    assert len({cost for cost, _, _ in offers}) < len(offers), "some cost the same"


def test_a_state_in_which_no_gpu_is_any_more_is_not_offered() -> None:
    pool = a_pool(ProfileMix(), 0)
    assert best(pool, "1g.10gb")[0] == 0

    pool.take(0)

    assert list(pool.offers("1g.10gb")) == []
    assert list(a_pool(ProfileMix()).offers("1g.10gb")) == []


def test_more_states_than_the_first_columns_hold() -> None:
    table = a_table()
    small = table.profiles["1g.10gb"]
    states = set()
    for pattern in range(128):
        state = 0
        for start in range(7):
            if pattern >> start & 1:
                state = small.occupy(state, start)
        states.add(state)
    pool = a_pool(ProfileMix(), *sorted(states))

    assert {state for _, state, _ in pool.offers("1g.10gb")} == {
        state for state in states if table.room(state, "1g.10gb")
    }


def test_inside_a_node_the_same_position_is_cheapest() -> None:
    table = a_table()
    full = table.profiles["7g.80gb"].occupy(0, 0)
    states = {3: 0, 5: table.profiles["1g.10gb"].occupy(0, 6), 7: full}
    pool = a_pool(a_mix(g1=LEARNED_MIN), *states.values())

    gpu, start = pool.cheapest(states, "1g.10gb")

    assert (states[gpu], start) == best(pool, "1g.10gb")


def test_products_have_pools_of_their_own() -> None:
    pools = MigPools(ProfileMix())
    large, small = a_table(), a_table("A100-40GB")

    assert pools.pool(large) is pools.pool(large)
    assert pools.pool(large) is not pools.pool(small)


# ── the mix ──


def test_nothing_weighs_before_enough_was_asked_for() -> None:
    mix = ProfileMix()
    mix.note("1g.10gb", LEARNED_MIN - 1, placed=True)
    assert (mix.version, mix.weight("1g.10gb")) == (0, 0)

    mix.note("1g.10gb", 1, placed=True)

    assert (mix.version, mix.weight("1g.10gb")) == (1, LEARNED_MIN)


def test_a_profile_refused_again_and_again_counts_once_until_one_is_placed() -> None:
    mix = ProfileMix()
    for _ in range(9):
        mix.note("7g.80gb", 1, placed=False)
    mix.note("7g.80gb", 1, placed=True)
    mix.note("7g.80gb", 1, placed=False)
    mix.note("1g.10gb", LEARNED_MIN, placed=True)

    assert mix.weight("7g.80gb") == 3


def test_old_requests_fade() -> None:
    mix = ProfileMix()
    mix.note("7g.80gb", TOTAL_MAX // 2, placed=True)
    for _ in range(16):
        mix.note("1g.10gb", REFRESH_MAX, placed=True)

    assert mix.weight("7g.80gb") < TOTAL_MAX // 8
    assert mix.weight("1g.10gb") + mix.weight("7g.80gb") < TOTAL_MAX
