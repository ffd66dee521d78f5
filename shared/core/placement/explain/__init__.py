"""Why a workload was not placed, with counts and a way out."""
