"""Admission answers everything that can be decoded, and never refuses what could run."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from shared.core.admission.admit import AdmissionRefusal, AdmittedWorkload, admit
from shared.core.admission.errors import Errors
from shared.core.admission.form import check_form
from shared.core.model.nouns import (
    GpuChoice,
    GpuRequest,
    Level,
    PodSet,
    Spread,
    TopologyRequest,
    WorkloadKind,
    WorkloadSpec,
)
from tests.unit.admission.builders import TEAM, a_node, gpu_quota, rules

NODES = [
    a_node("n1"),
    a_node("n2", gpus=4, mig_gpus=4, rack="r1"),
    a_node("n3", flavor="cpu", product="", gpus=0),
]
words = st.one_of(
    st.sampled_from(["", "a", "main", "H100", "12.4", "1g.10gb", "training-batch", "LD_PRELOAD"]),
    st.text(max_size=12),
)
numbers = st.one_of(
    st.integers(-2, 20), st.integers(), st.sampled_from([1000, 999, 4096, 4097, 1 << 62, 10**400])
)
maybe = st.one_of(st.none(), numbers)
levels = st.one_of(st.none(), st.sampled_from(Level))
some_words = st.lists(words, max_size=3).map(tuple)
pairs = st.dictionaries(words, words, max_size=3)
gpus = st.builds(
    GpuRequest,
    count=numbers,
    milli=st.one_of(st.just(0), numbers),
    memory_mib=st.one_of(st.just(0), numbers),
    mig_profile=words,
    mig_count=st.one_of(st.just(0), numbers),
)
pod_sets = st.builds(
    PodSet,
    name=words,
    count=numbers,
    min_count=maybe,
    gpu=gpus,
    cpu_milli=maybe,
    memory_mib=maybe,
    shm_mib=maybe,
    image=words,
    command=some_words,
    environment=pairs,
    secrets=some_words,
    volumes=some_words,
)
specs = st.builds(
    WorkloadSpec,
    name=words,
    kind=st.sampled_from(WorkloadKind),
    pod_sets=st.lists(pod_sets, max_size=3).map(tuple),
    queue=words,
    priority_class=words,
    gpu_choice=st.builds(
        GpuChoice,
        products=some_words,
        preferred_products=st.dictionaries(words, numbers, max_size=2),
        min_memory_mib=numbers,
        min_driver=words,
        cuda=words,
        node_pool=words,
    ),
    topology=st.builds(TopologyRequest, required=levels, preferred=levels),
    spread=st.sampled_from(Spread),
    labels=pairs,
    expected_duration_seconds=maybe,
    max_duration_seconds=maybe,
    checkpoint_interval_seconds=maybe,
    max_retries=numbers,
    grace_seconds=numbers,
    restart_seconds=numbers,
    idle_timeout_seconds=maybe,
    time_to_live_seconds=maybe,
    model_parameters_billions=st.one_of(st.none(), st.floats()),
    model_bytes_per_parameter=numbers,
)
good_gpus = st.one_of(
    st.just(GpuRequest()),
    st.builds(GpuRequest, count=st.integers(1, 12)),
    st.builds(GpuRequest, milli=st.integers(1, 999), memory_mib=st.integers(1, 100_000)),
    st.builds(
        GpuRequest,
        mig_profile=st.sampled_from(["1g.10gb", "3g.40gb", "7g.80gb", "1g.5gb"]),
        mig_count=st.integers(0, 9),
    ),
)
good_specs = st.builds(
    WorkloadSpec,
    name=st.just("a"),
    kind=st.sampled_from(WorkloadKind),
    pod_sets=st.lists(
        st.builds(
            PodSet,
            count=st.integers(1, 20),
            gpu=good_gpus,
            cpu_milli=st.one_of(st.none(), st.integers(0, 200_000)),
        ),
        min_size=1,
        max_size=1,
    ).map(tuple),
    topology=st.builds(TopologyRequest, required=levels),
    model_parameters_billions=st.one_of(st.none(), st.floats(0.1, 1000)),
)


@given(specs)
def test_every_spec_gets_an_answer_that_can_be_stored(spec):
    answer = admit(spec, TEAM, rules(NODES))

    assert isinstance(answer, (AdmittedWorkload, AdmissionRefusal))
    if isinstance(answer, AdmissionRefusal):
        assert answer.errors
        text = msgspec.json.encode(answer).decode() + answer.message
        assert not any(character < " " or character == "\x7f" for character in text)
        assert all(len(one.value) <= 703 and one.rule for one in answer.errors)


@given(good_specs)
def test_what_is_admitted_is_complete_and_would_be_admitted_again(spec):
    by = rules(NODES, {"h100": gpu_quota(200), "cpu": gpu_quota()})
    answer = admit(spec, TEAM, by)

    if isinstance(answer, AdmittedWorkload):
        errors = Errors()
        check_form(answer.spec, errors)
        assert errors == []
        assert admit(answer.spec, TEAM, by) == answer
        for one in answer.spec.pod_sets:
            assert None not in (one.min_count, one.cpu_milli, one.memory_mib, one.shm_mib)


@given(good_specs)
def test_a_larger_fleet_never_refuses_what_a_smaller_one_admits(spec):
    quota = {"h100": gpu_quota(), "cpu": gpu_quota()}

    small = admit(spec, TEAM, rules(NODES[:2], quota))
    large = admit(spec, TEAM, rules(NODES, quota))

    if isinstance(small, AdmittedWorkload):
        assert large == small
