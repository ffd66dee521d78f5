"""Real kubelets on this machine: nodes as processes in namespaces, joined to a control plane."""
