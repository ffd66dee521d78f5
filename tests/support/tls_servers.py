"""A broker and a database that speak TLS alone, with certificates of an authority of their own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from typing_extensions import override

from deploy.kube.kubelet_access import openssl
from deploy.local.kafka import LocalKafka
from deploy.local.postgres import LocalPostgres
from shared.ports.kafka_access import KafkaAccess, SecurityProtocol

_NEW_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")
_BROKER: Final = """\
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""
_DATABASE: Final = """
ssl = on
ssl_cert_file = '{folder}/server.crt'
ssl_key_file = '{folder}/server.key'
"""


def make_authority(folder: Path, name: str) -> Path:
    """The certificate of a new authority, with its key beside it."""
    path = folder / f"{name}.crt"
    files = ("-keyout", str(path.with_suffix(".key")), "-out", str(path))
    openssl("req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={name}", *files)
    return path


def make_certificate(authority: Path, folder: Path, address: str = "127.0.0.1") -> None:
    """`server.crt`, `server.key` and `server.pem` (both) for a server at this address."""
    server = folder / "server"
    files = ("-keyout", f"{server}.key", "-out", f"{server}.crt")
    signed = ("-CA", str(authority), "-CAkey", str(authority.with_suffix(".key")))
    name = ("-subj", "/CN=server", "-addext", f"subjectAltName=IP:{address}")
    openssl("req", "-x509", *_NEW_KEY, "-days", "2", *name, *signed, *files)
    key, certificate = (Path(f"{server}.{one}").read_text() for one in ("key", "crt"))
    Path(f"{server}.pem").write_text(key + certificate)


class TlsKafka(LocalKafka):
    """Clients log in with SCRAM-SHA-512 over TLS."""

    def __init__(self, folder: Path, authority: Path, environment: dict[str, str]) -> None:
        super().__init__(folder, environment=environment, secured=True)
        self._authority = authority

    @override
    def _configure(self) -> Path:
        path = super()._configure()
        make_certificate(self._authority, self.folder)
        plain, encrypted = (f"CLIENTS:{one.value}" for one in (_PLAIN, _ENCRYPTED))
        text = path.read_text().replace(plain, encrypted)
        path.write_text(text + _BROKER.format(folder=self.folder, authority=self._authority))
        return path

    @override
    def _access(self, user: str) -> KafkaAccess:
        access = super()._access(user)
        return replace(access, protocol=_ENCRYPTED, ca_file=str(self._authority))


class TlsPostgres(LocalPostgres):
    """Takes connections with and without TLS; `certified` is the address of a server."""

    def __init__(
        self, folder: Path, authority: Path, environment: dict[str, str], *, certified: str
    ) -> None:
        super().__init__(folder, environment=environment)
        self._authority = authority
        self._certified = certified

    def tls_url(self, role: str, authority: Path, mode: str = "verify-full") -> str:
        """The address for a service's role, as the chart makes it."""
        return f"{self.url(role)}?sslmode={mode}&sslrootcert={authority}"

    @override
    def _configure(self) -> None:
        super()._configure()
        make_certificate(self._authority, self.folder, self._certified)
        for name in ("server.crt", "server.key"):
            (self.folder / name).chmod(0o600)
            if self._user:
                shutil.chown(self.folder / name, self._user)
        settings = self.folder / "data" / "postgresql.auto.conf"
        settings.write_text(settings.read_text() + _DATABASE.format(folder=self.folder))


_PLAIN: Final = SecurityProtocol.SASL_PLAINTEXT
_ENCRYPTED: Final = SecurityProtocol.SASL_SSL
