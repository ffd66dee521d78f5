"""The Helm chart `muster`, and what of it is made from the tables and manifests of the code."""
