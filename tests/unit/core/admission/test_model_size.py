"""A model that its GPUs cannot hold is refused at once, with the numbers."""

import pytest

from shared.core.admission.static_fit.model_size import model_error
from shared.core.model.nouns import (
    GpuRequest,
    WorkloadKind,
)
from tests.unit.admission.builders import a_node, a_pod_set, a_spec
from tests.unit.admission.fleets import a_fleet


def a_model(kind, gpu, billions, count=1, **rest):
    return a_spec(
        kind,
        pod_sets=(a_pod_set(gpu=gpu, count=count),),
        model_parameters_billions=billions,
        **rest,
    )


def test_a_model_that_its_gpus_cannot_hold_is_refused_with_the_numbers():
    small = GpuRequest(mig_profile="1g.10gb", mig_count=1)

    error = model_error(a_model(WorkloadKind.INFERENCE, small, 7.0), a_fleet(a_node()))

    assert error is not None
    assert "7 billion parameters x 2 bytes = 14 GB of weights" in error.rule
    assert "needs at least 18 GB, the request holds 10.0 GB" in error.rule


@pytest.mark.parametrize(
    ("gpu", "fits"),
    [
        (GpuRequest(mig_profile="2g.20gb", mig_count=1), True),
        (GpuRequest(milli=200, memory_mib=20_000), True),
        (GpuRequest(milli=900, memory_mib=16_000), False),
        (GpuRequest(count=1), True),
    ],
)
def test_every_form_of_request_is_sized(gpu, fits):
    error = model_error(a_model(WorkloadKind.INFERENCE, gpu, 7.0), a_fleet(a_node()))

    assert (error is None) is fits


def test_training_shards_a_model_over_the_gang_and_serving_does_not():
    gpu = GpuRequest(count=1)

    training = a_model(WorkloadKind.TRAINING, gpu, 70.0, count=2)
    serving = a_model(WorkloadKind.INFERENCE, gpu, 70.0, count=2)

    assert model_error(training, a_fleet(a_node())) is None
    assert model_error(serving, a_fleet(a_node())) is not None


def test_a_model_in_training_may_be_spread_over_pod_sets():
    sets = tuple(a_pod_set(gpus=1, name=name) for name in ("a", "b"))
    spec = a_spec(pod_sets=sets, model_parameters_billions=70.0)

    assert model_error(spec, a_fleet(a_node())) is None


def test_a_model_on_whole_gpus_is_not_judged_before_a_node_is_known():
    assert (
        model_error(a_model(WorkloadKind.TRAINING, GpuRequest(count=1), 700.0), a_fleet()) is None
    )
