"""`python -m services.preemption`."""

from services.preemption.handler import PreemptionHandler
from shared.runtime.main import run_service

if __name__ == "__main__":
    run_service(lambda settings: PreemptionHandler(cell=settings.cell, seed=settings.seed))
