"""The shape of a fleet follows its nodes."""

from shared.core.fleet_shape import summary_of
from tests.unit.admission.builders import a_node
from tests.unit.admission.fleets import a_fleet


def test_the_shape_of_the_fleet_follows_every_change():
    fleet = a_fleet(a_node("n1"), a_node("n2"))
    before = fleet.version

    same = fleet.put("n1", summary_of(a_node("n1")))
    fleet.put("n1", summary_of(a_node("n1", gpus=4)))
    fleet.remove("n2")

    assert not same
    assert fleet.version == before + 2
    assert [(shape.gpus, nodes) for shape, nodes in fleet.shapes.items()] == [(4, 1)]
    assert not fleet.remove("n2")


def test_a_fleet_counts_its_nodes_each_once():
    fleet = a_fleet(a_node("n1"), a_node("n2"), a_node("n1", gpus=4))
    assert len(fleet) == 2

    fleet.remove("n1")

    assert len(fleet) == 1
