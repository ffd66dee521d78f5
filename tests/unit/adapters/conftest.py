"""A cluster of Kubernetes behind which a test stands."""

import pytest
from aiohttp import web

from shared.adapters.kubernetes.cluster import KubernetesCluster
from shared.adapters.kubernetes.settings import KubernetesSettings
from tests.unit.adapters.api_server import Server, write_config


@pytest.fixture
async def server(tmp_path):
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.port = runner.addresses[0][1]
    server.site = site
    yield server
    await runner.cleanup()


@pytest.fixture
def config(server, tmp_path):
    return write_config(tmp_path / "kube:config", server.port)


@pytest.fixture
async def cluster(config):
    cluster = KubernetesCluster(KubernetesSettings(config=str(config), requests_at_once=4))
    yield cluster
    await cluster.close()
