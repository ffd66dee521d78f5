"""The quota service as a process."""

from services.quota.handler import QuotaHandler
from shared.runtime.main import run_service

if __name__ == "__main__":
    run_service(lambda settings: QuotaHandler(cell=settings.cell))
