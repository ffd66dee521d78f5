"""From what a Kubernetes API server tells of a node to the inventory that placement works with.

`quantity` and `requests` read amounts, `devices` and `counted` find the GPUs, `standing` says
whether a node that is NotReady rests or is lost, `inventory` puts it all together.
"""
