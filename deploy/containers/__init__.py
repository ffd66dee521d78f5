"""Container engines for tests: the machine's own, or one that is started for a command.

`python -m deploy.containers COMMAND...` runs a command with an engine at hand that has every image
of docker-compose.yml. `engine` says which engine that is, `own_engine` runs one of our own, and
`stand_ins` makes its images from packages.
"""
