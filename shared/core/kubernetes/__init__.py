"""From what a Kubernetes API server tells of a node to the inventory that placement works with.

`quantity` and `requests` read amounts, `devices` and `counted` find the GPUs, `observed` is what
agents see of them, `standing` says whether a node that is NotReady rests or is lost, `inventory`
puts it all together.
"""
