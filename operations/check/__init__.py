"""The independent checker of the invariants I1-I13 and I15-I21.

It reads PostgreSQL and Kafka from outside and shares no code with what it checks: a mistake of
the services cannot hide in here. Reading order: `model`, `log`, `database`, then one module for
each group of invariants, `runner`, `view`. I16 and I17 read a Kubernetes API server besides
(`api_pods`), or I16 the simulated cluster (`simulated_pods`).
"""
