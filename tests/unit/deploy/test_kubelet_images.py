"""The image of real kubelets: a `docker save` archive, and the same bytes each time."""

import hashlib
import json
import tarfile

import pytest

from deploy.kubelets.images import IMAGE, PAUSE, write_images


@pytest.fixture
def archive(tmp_path):
    busybox = tmp_path / "busybox"
    busybox.write_bytes(b"\x7fELF of a shell")
    write_images(busybox, tmp_path / "images.tar")
    return tmp_path / "images.tar"


def read(archive, name):
    with tarfile.open(archive) as file:
        member = file.extractfile(name)
        assert member is not None
        return member.read()


def test_both_images_name_the_hash_of_the_layer_that_they_share(archive):
    manifest = json.loads(read(archive, "manifest.json"))
    layer = f"sha256:{hashlib.sha256(read(archive, 'layer.tar')).hexdigest()}"

    assert [[IMAGE], [PAUSE]] == [one["RepoTags"] for one in manifest]
    for one in manifest:
        assert [layer] == json.loads(read(archive, one["Config"]))["rootfs"]["diff_ids"]


def test_the_layer_has_the_shell_under_the_names_of_its_commands(archive, tmp_path):
    (tmp_path / "layer.tar").write_bytes(read(archive, "layer.tar"))

    with tarfile.open(tmp_path / "layer.tar") as layer:
        shell, link = layer.getmember("bin/busybox"), layer.getmember("bin/sh")
    assert (0o755, "busybox") == (shell.mode, link.linkname)


def test_it_has_the_same_bytes_each_time(archive, tmp_path):
    write_images(tmp_path / "busybox", tmp_path / "again.tar")

    assert archive.read_bytes() == (tmp_path / "again.tar").read_bytes()
