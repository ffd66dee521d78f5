"""The cluster behind a Kubernetes API server; `cluster.KubernetesCluster` is the face."""
