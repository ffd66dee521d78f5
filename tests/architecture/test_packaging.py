"""The wheel: our packages and nothing else, and no other distribution that claims their names."""

import tomllib
from importlib.metadata import packages_distributions
from pathlib import PurePosixPath

import pytest
from packaging.requirements import Requirement

from deploy.local import wheel
from deploy.local.cache import CHECKOUT


@pytest.fixture(scope="session")
def contents(tmp_path_factory: pytest.TempPathFactory) -> list[PurePosixPath]:
    return wheel.contents(wheel.build(tmp_path_factory.mktemp("wheel")))


@pytest.mark.parametrize("package", sorted(wheel.PACKAGES))
def test_no_other_distribution_claims_our_packages(package: str):
    claimed = set(packages_distributions().get(package, ["muster-gpu"]))

    assert claimed == {"muster-gpu"}


def test_the_wheel_holds_our_packages_only(contents: list[PurePosixPath]):
    assert {path.parts[0] for path in contents} <= wheel.PACKAGES


def test_the_wheel_holds_every_module_of_them(contents: list[PurePosixPath]):
    ours = {
        PurePosixPath(path.relative_to(CHECKOUT))
        for package in wheel.PACKAGES
        for path in (CHECKOUT / package).rglob("*.py")
    }

    assert ours == {path for path in contents if path.suffix == ".py"}


def test_what_the_wheel_asks_for_is_what_is_pinned():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    pinned = _requirements((CHECKOUT / "requirements.in").read_text().splitlines())
    asked = _requirements(project["dependencies"])

    assert asked.keys() == pinned.keys()
    for name, requirement in asked.items():
        version = next(iter(pinned[name].specifier)).version
        assert requirement.specifier.contains(version), name


def test_the_image_has_what_the_agent_asks_for():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    asked = _requirements(project["optional-dependencies"]["agent"])
    lines = (CHECKOUT / "requirements-agent.txt").read_text().splitlines()
    pinned = _requirements([one.rstrip(" \\") for one in lines if "==" in one])

    assert asked.keys() <= pinned.keys()
    for name, requirement in asked.items():
        version = next(iter(pinned[name].specifier)).version
        assert requirement.specifier.contains(version), name
    assert "requirements-agent.txt" in (CHECKOUT / "deploy" / "Dockerfile").read_text()


def _requirements(lines: list[str]) -> dict[str, Requirement]:
    found = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {requirement.name: requirement for requirement in found}
