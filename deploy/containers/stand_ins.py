"""Images made from packages, for machines that reach package registries and no image registry.

Each has the name of the official image, so that docker-compose.yml runs on them unchanged, and the
part of its behaviour that the file needs: programs, users, paths, and the order of a first start.
They are loaded into an engine of our own only: a stand-in must never pass for the real image on
somebody's engine.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy import debian
from deploy.containers.names import KAFKA_IMAGE, POSTGRES_IMAGE, PYTHON_IMAGE
from deploy.local.kafka_jars import fetched_jars
from deploy.local.processes import LocalError

FILES = Path(__file__).parent / "images"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
PIP_SETTINGS = Path("/etc/pip.conf")
BUILD_SECONDS = 600
POSTGRES_PATH = "/usr/lib/postgresql/17/bin:/usr/local/bin:/usr/bin:/bin"
POSTGRES_SAMPLE = "/usr/share/postgresql/17/postgresql.conf.sample"
HOST_APT = 'APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -q -o APT::Sandbox::User=root'
KAFKA_UID = 1000
POSTGRES_UID = 999
"""As in the official image: a pod that may not be root names it by number."""
COMPOSE_PACKAGE = "docker-compose"
"""In the suite of the database's image: the first release with a Compose that is new enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """A root file system from packages of one Debian release, and what is done to it.

    A command runs on the machine, with the root file system at `"$1"`; what a build has at hand
    (`Materials`) stands in its environment.
    """

    image: str
    suite: str
    packages: tuple[str, ...]
    commands: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


PYTHON = StandIn(
    image=PYTHON_IMAGE,
    suite="bookworm",
    packages=("python3", "python3-pip", "ca-certificates"),
    commands=(
        'ln -s python3 "$1/usr/bin/python"',
        'rm "$1"/usr/lib/python3*/EXTERNALLY-MANAGED',
        'if test -e "$AUTHORITIES"; then cp "$AUTHORITIES" "$1/etc/ssl/certs/"; fi',
        'if test -e "$PIP_SETTINGS"; then cp "$PIP_SETTINGS" "$1/etc/"; fi',
    ),
    changes=('CMD ["python3"]',),
)
POSTGRES = StandIn(
    image=POSTGRES_IMAGE,
    suite="trixie",
    packages=("postgresql-17",),
    commands=(
        'cp "$FILES/postgres/docker-entrypoint.sh" "$1/usr/local/bin/"',
        'mkdir -p "$1/docker-entrypoint-initdb.d"',
        f'chroot "$1" groupmod --gid {POSTGRES_UID} postgres',
        f'chroot "$1" usermod --uid {POSTGRES_UID} postgres',
        'chroot "$1" chown -R postgres:postgres /var/lib/postgresql /var/log/postgresql',
        # Servers of the distribution listen on the loopback only, those of the image everywhere.
        f"""sed -i "s/^#listen_addresses.*/listen_addresses = '*'/" "$1{POSTGRES_SAMPLE}" """,
        f'cd "$DOWNLOADS" && {HOST_APT} download {COMPOSE_PACKAGE}',
    ),
    changes=(
        'ENTRYPOINT ["docker-entrypoint.sh"]',
        'CMD ["postgres"]',
        f"ENV PATH={POSTGRES_PATH} LANG=C.UTF-8 PGDATA=/var/lib/postgresql/data",
        "EXPOSE 5432",
    ),
)
KAFKA = StandIn(
    image=KAFKA_IMAGE,
    suite="bookworm",
    packages=("openjdk-17-jre-headless",),
    commands=(
        f'chroot "$1" useradd --uid {KAFKA_UID} --create-home appuser',
        'mkdir -p "$1/opt/kafka/bin" "$1/opt/kafka/config" "$1/var/lib/kafka/data"',
        'cp "$FILES"/kafka/*.sh "$1/opt/kafka/bin/"',
        'cp -r "$JARS/lib" "$1/opt/kafka/libs"',
        'cp "$JARS/log4j2.properties" "$1/opt/kafka/config/"',
        f'chown -R {KAFKA_UID} "$1/var/lib/kafka"',
    ),
    changes=("USER appuser", "EXPOSE 9092"),
)
STAND_INS = (PYTHON, POSTGRES, KAFKA)


def fingerprint() -> str:
    """A hash of all that goes into the images, but for the packages' own versions."""
    digest = hashlib.sha256(repr(STAND_INS).encode())
    for path in sorted(FILES.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(FILES).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def build(stand_in: StandIn, archive: Path, downloads: Path) -> None:
    """Write the root file system of an image as a tar.

    Args:
        stand_in: what to build.
        archive: the tar, there only when it is whole.
        downloads: a folder for packages that are wanted for themselves.

    Raises:
        LocalError: packages cannot be had, or a command failed.
    """
    partial = archive.with_name(f"{archive.name}.partial")
    hooks = [f"--customize-hook={command}" for command in stand_in.commands]
    done = subprocess.run(
        [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            "--format=tar",
            "--dpkgopt=force-unsafe-io",
            f"--include={','.join(stand_in.packages)}",
            *hooks,
            stand_in.suite,
            str(partial),
            *filter(None, [debian.mirror()]),
        ],
        env=_environment(downloads),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise LocalError(
            f"the stand-in for {stand_in.image} could not be built:\n{done.stdout[-3000:]}"
        )
    partial.rename(archive)


def missing_packages() -> list[str]:
    """Packages that a build needs and this machine lacks."""
    needed = {"mmdebstrap": "mmdebstrap", "apt-get": "apt", "dpkg-deb": "dpkg"}
    return [package for program, package in needed.items() if shutil.which(program) is None]


def _environment(downloads: Path) -> Mapping[str, str]:
    return {
        **os.environ,
        "FILES": str(FILES),
        "JARS": str(fetched_jars()),
        "DOWNLOADS": str(downloads),
        "AUTHORITIES": str(AUTHORITIES),
        "PIP_SETTINGS": str(PIP_SETTINGS),
    }
