"""Which processes run where pods run on Kubernetes, and which where the cluster is simulated."""

from deploy.local.services import ROLES, SERVICES, on_test_cluster, services_on


def test_the_simulated_cluster_is_the_default():
    assert SERVICES == services_on("") == services_on("simulated")


def test_on_kubernetes_watcher_and_native_stand_for_cluster_and_fleet():
    names = [row.name for row in services_on("kubernetes")]

    assert {"simulated-cluster", "fleet"} == {row.name for row in SERVICES} - set(names)
    assert {"cluster-watcher", "native"} == set(names) - {row.name for row in SERVICES}
    assert {row.role for row in services_on("kubernetes")} <= set(ROLES)


def test_on_the_test_cluster_each_is_who_it_is_and_no_more():
    settings = on_test_cluster("/kube")

    assert {
        "binder": {"MUSTER_KUBE_CONFIG": "/kube/binder.kubeconfig"},
        "gateway": {"MUSTER_KUBE_CONFIG": "/kube/gateway.kubeconfig"},
        "cluster-watcher": {"MUSTER_KUBE_CONFIG": "/kube/watcher.kubeconfig"},
        "native": {"MUSTER_KUBE_CONFIG": "/kube/native.kubeconfig"},
    } == settings
    assert set(settings) <= {row.name for row in services_on("kubernetes")}
    assert {} == on_test_cluster("")
