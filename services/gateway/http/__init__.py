"""Requests and answers, whatever they are about: routes, bodies, problems, permissions.

Begin with `route.py` (what a route is) and `authorisation.py` (the one function that decides
permissions).
"""
