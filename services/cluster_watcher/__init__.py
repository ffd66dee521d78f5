"""cluster_watcher: reports every node of a Kubernetes cluster; decides nothing about work."""
