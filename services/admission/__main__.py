"""The admission service as a process."""

from services.admission.handler import AdmissionHandler
from shared.runtime.main import run_service

if __name__ == "__main__":
    run_service(
        lambda settings: AdmissionHandler(
            cell=settings.cell, switching=settings.mig_switch_seconds > 0
        )
    )
