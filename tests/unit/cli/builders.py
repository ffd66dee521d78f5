"""What tests of the command line are made of: a workload, an answer, a file."""

from pathlib import Path

import yaml

from tests.unit.cli.gateway import Answer

ID = "w" + "a" * 26
OTHER = "w" + "b" * 26
JOB = {"name": "train", "kind": "training", "pod_sets": [{"gpu": {"count": 8}}]}


def workload(state: str = "running", identifier: str = ID, **more) -> dict:
    return {
        "id": identifier,
        "name": "train",
        "team": "vision",
        "queue": "vision",
        "kind": "training",
        "state": state,
        "gpu_milli": 8000,
        "pods": 1,
        "priority": 100,
        "nodes": ["node-1"],
        "reason": "",
        "submitted_at_ms": 1,
        **more,
    }


def accepted(identifier: str = ID) -> Answer:
    body = {"id": identifier, "state": "received", "name": "train"}
    return Answer(body, 202, {"Location": f"/v1/workloads/{identifier}"})


def accepted_all(*identifiers: str) -> Answer:
    items = [{"id": one, "status": 202, "state": "received"} for one in identifiers]
    return Answer({"items": items}, 202)


def write(folder: Path, *documents: dict) -> str:
    path = folder / "jobs.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)
