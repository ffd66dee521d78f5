"""The small client of an API server says of whatever breaks a connection that it is away."""

import contextlib
import socket
import ssl
import threading

import pytest

from deploy.kube.api import ApiClient
from deploy.kube.kubeconfig import write_kubeconfig
from deploy.kube.kubelet_access import openssl

BROKEN = {
    "in the answer": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "before the answer": b"",
    "no HTTP": b"hello\r\n\r\n",
}


@contextlib.contextmanager
def a_server(folder, answer):
    """One that answers a request with these bytes, then is gone; a kubeconfig of it."""
    key, certificate = folder / "key", folder / "certificate"
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc",
        "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    config = folder / "config"
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = f"https://127.0.0.1:{listening.getsockname()[1]}"
        write_kubeconfig(config, server=server, certificate=certificate, token="abc")

        def serve():
            with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield config
        thread.join()


@pytest.mark.parametrize("broken", BROKEN)
def test_an_answer_that_breaks_off_is_a_server_that_is_away(tmp_path, broken):
    with (
        a_server(tmp_path, BROKEN[broken]) as config,
        contextlib.closing(ApiClient(config)) as client,
        pytest.raises(ConnectionError),
    ):
        client.request("GET", "/readyz")


def test_a_whole_answer_is_its_status_and_body(tmp_path):
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{"a":1}'
    with a_server(tmp_path, answer) as config, contextlib.closing(ApiClient(config)) as client:
        assert client.request("GET", "/readyz") == (200, {"a": 1})
