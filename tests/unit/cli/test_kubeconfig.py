"""A context of a kubeconfig as login, and `kubectl muster`, which logs in as kubectl does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.cli import application
from muster.configuration import find
from muster.errors import NotConfigured
from tests.unit.cli.test_whoami import CALLER

ADDRESS = "https://muster.example.com"


def config(folder: Path, user: dict[str, Any], name: str = "prod", file: str = "config") -> Path:
    """A file with one context, its current one, which has Muster's address."""
    extension = {"name": "muster.dev", "extension": {"address": ADDRESS}}
    context = {"cluster": name, "user": f"{name}-user", "extensions": [extension]}
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": context}],
        "users": [{"name": f"{name}-user", "user": user}],
    }
    path = folder / ".kube" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


def login(folder: Path, context: str | None = "", **environment: str) -> tuple[str, str]:
    found = find(context=context, environment={"HOME": str(folder), **environment}, folder=folder)
    return found.address, found.key


def test_a_user_has_a_token_a_file_with_one_or_a_program_that_makes_one(tmp_path):
    config(tmp_path, {"token": "a.b.c"})
    assert login(tmp_path) == (ADDRESS, "a.b.c")

    (tmp_path / ".kube" / "token").write_text("d.e.f\n")
    config(tmp_path, {"tokenFile": "token"})
    assert login(tmp_path) == (ADDRESS, "d.e.f")

    program = (
        "import json, os; asked = json.loads(os.environ['KUBERNETES_EXEC_INFO']);"
        "print(json.dumps({'status': {'token': os.environ['WHO'] + '.' + asked['kind'] + '.c'}}))"
    )
    asked = {"command": sys.executable, "args": ["-c", program]}
    config(tmp_path, {"exec": {**asked, "env": [{"name": "WHO", "value": "me"}]}})
    assert login(tmp_path) == (ADDRESS, "me.ExecCredential.c")


def test_what_is_given_outright_and_in_the_environment_goes_before_the_context(tmp_path):
    config(tmp_path, {"exec": {"command": "/is/not/there"}})

    found = find("http://here", "mk_1", context="prod", environment={"HOME": str(tmp_path)})
    assert (found.address, found.key) == ("http://here", "mk_1")
    assert login(tmp_path, MUSTER_KEY="mk_2") == (ADDRESS, "mk_2")


def test_the_first_of_several_files_counts(tmp_path):
    one = config(tmp_path, {"token": "a.b.c"}, file="one")
    two = config(tmp_path, {"token": "d.e.f"}, name="test", file="two")
    files = f"{tmp_path / 'none'}:{one}:{two}"

    assert login(tmp_path, KUBECONFIG=files)[1] == "a.b.c"
    assert login(tmp_path, "test", KUBECONFIG=files)[1] == "d.e.f"


@pytest.mark.parametrize(
    ("user", "context", "words"),
    [
        ({"client-certificate-data": "x"}, "prod", "a client certificate is good for the API"),
        ({"token": "a.b.c"}, "other", "No kubeconfig has a context 'other'"),
        ({"tokenFile": "none"}, "", "none: No such file"),
        ({"exec": {"command": "/is/not/there"}}, "", "gave no token"),
    ],
)
def test_a_context_without_a_token_is_told(tmp_path, user, context, words):
    config(tmp_path, user)

    with pytest.raises(NotConfigured, match=words):
        login(tmp_path, context)


def test_without_a_token_in_the_current_context_other_sources_are_asked(tmp_path):
    config(tmp_path, {"client-certificate-data": "x"})
    own = tmp_path / ".config" / "muster" / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("key: mk_of_file\n")

    assert login(tmp_path) == (ADDRESS, "mk_of_file")
    with pytest.raises(NotConfigured, match="No API key is known"):
        login(tmp_path / "elsewhere", MUSTER_ADDRESS="http://here")


def test_kubectl_muster_logs_in_as_kubectl_does_and_says_its_own_name(
    muster, gateway, monkeypatch, tmp_path
):
    gateway.on("GET /v1/whoami", CALLER)
    monkeypatch.delenv("MUSTER_KEY")
    monkeypatch.setenv("MUSTER_TEAM", "vision")
    config(tmp_path, {"token": "a.b.c"})

    assert muster("whoami").code == 2, "muster itself reads no kubeconfig unasked"
    assert muster("--context", "prod", "whoami").code == 0
    monkeypatch.setattr(application._PROGRAM, "is_plugin", True)
    assert json.loads(muster("whoami", "-o", "json").out)["team"] == "vision"
    request = gateway.seen[-1]
    assert request.headers["Authorization"] == "Bearer a.b.c"
    assert request.headers["Muster-Team"] == "vision"
    shown = muster("--help").out
    assert "Usage: kubectl muster" in shown
    assert "kubectl muster run --gpus 8" in shown
