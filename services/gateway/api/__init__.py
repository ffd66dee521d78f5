"""The table of routes, its description in OpenAPI, and the server in front of it.

Begin with `routes.py`.
"""
