"""The programs of the test cluster: built once for each set of pins, never skipped in silence."""

import os
import stat

import pytest

from deploy.kube import programs as module
from deploy.kube.programs import KUBELET, NAMES, programs
from deploy.local.processes import LocalError

GO = """#!/bin/sh
if [ "$1" = env ]; then echo ${FAKE_GO_VERSION:-go1.26.8}; exit 0; fi
echo built >> "$FAKE_GO_LOG"
if [ -n "$FAKE_GO_FAILS" ]; then echo "no such module"; exit 1; fi
while [ "$1" != -o ]; do shift; done
echo program > "$2"
"""


@pytest.fixture
def go(tmp_path, monkeypatch):
    """A `go` that notes each build; returns how often it was asked to build."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "go"
    program.write_text(GO)
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GO_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("MUSTER_KUBE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "BYTES_FREE_MIN", 0)
    return lambda: len((tmp_path / "log").read_text().splitlines())


def test_each_program_is_built_once(go):
    first, again = programs(), programs()

    assert first == again
    assert sorted(path.name for path in first.iterdir()) == sorted(NAMES)
    assert go() == len(NAMES)


def test_a_kubelet_is_built_alone_in_a_folder_of_its_own(go):
    kubelet, again = programs(KUBELET), programs(KUBELET)

    assert ["kubelet"] == [path.name for path in kubelet.iterdir()]
    assert kubelet == again != programs()
    assert go() == 1 + len(NAMES)


def test_another_go_builds_in_another_folder(go, monkeypatch):
    first = programs()
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.27.0")

    assert programs() != first


def test_another_pin_builds_in_another_folder(go, monkeypatch, tmp_path):
    first = programs()
    copy = tmp_path / "modules"
    for one in module.BUILT:
        (copy / one.folder).mkdir(parents=True)
        (copy / one.folder / "go.mod").write_text("module other\n")
    monkeypatch.setattr(module, "MODULES", copy)

    assert programs() != first


def test_a_build_that_fails_says_so_and_leaves_no_program(go, monkeypatch, tmp_path):
    monkeypatch.setenv("FAKE_GO_FAILS", "yes")

    with pytest.raises(LocalError, match=r"go build muster/etcd failed:\nno such module"):
        programs()

    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name in NAMES]


def test_without_go_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(LocalError, match=r"Go 1\.26 or newer.*no `go` on the PATH: install Go"):
        programs()


def test_an_old_go_is_named(go, monkeypatch):
    monkeypatch.setenv("FAKE_GO_VERSION", "go1.25.3")

    with pytest.raises(LocalError, match=r"Go 1\.26 or newer, not by: go1\.25\.3"):
        programs()


def test_a_full_disk_is_told_before_the_build(go, monkeypatch):
    monkeypatch.setattr(module, "BYTES_FREE_MIN", 1 << 60)

    with pytest.raises(LocalError, match=r"needs 1073741824 GiB of free disk"):
        programs()
