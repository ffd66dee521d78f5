"""Nodes, their devices and what others run on them, as an API server tells them."""
