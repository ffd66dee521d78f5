"""Requests and answers, whatever they are about: routes, bodies, problems, who may do what.

Begin with `route.py` (what a route is) and `authorisation.py` (the one function that says who
may).
"""
