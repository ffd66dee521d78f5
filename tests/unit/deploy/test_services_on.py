"""Which processes run where pods run on Kubernetes, and which where the cluster is simulated."""

from deploy.local.services import ROLES, SERVICES, services_on


def test_the_simulated_cluster_is_the_default():
    assert SERVICES == services_on("") == services_on("simulated")


def test_on_kubernetes_the_watcher_stands_for_cluster_and_fleet():
    names = [row.name for row in services_on("kubernetes")]

    assert {"simulated-cluster", "fleet"} == {row.name for row in SERVICES} - set(names)
    assert {"cluster-watcher"} == set(names) - {row.name for row in SERVICES}
    assert {row.role for row in services_on("kubernetes")} <= set(ROLES)
