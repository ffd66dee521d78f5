"""`python -m deploy.kubelets.api_service`: a node's way from the API server's Service to itself.

A pod asks the API server at the first address of all Services. kube-proxy would lead it from
there; here the node has that address, and passes each connection on as it is. Runs in the network
of a node.
"""

import argparse
import asyncio
import contextlib
import sys
import urllib.parse
from typing import Final

from deploy.kube.control_plane import API_SERVICE

PORT: Final = 443
BUFFER_BYTES: Final = 1 << 16


def main() -> int:
    """Pass connections on for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("server", help="address of the API server, https://HOST:PORT")
    server = urllib.parse.urlsplit(parser.parse_args().server)
    asyncio.run(_serve(server.hostname, server.port))
    return 0


def command(server: str) -> str:
    """What a node runs, for the API server at this address."""
    return f"{sys.executable} -m {__name__} {server}"


async def _serve(host: str | None, port: int | None) -> None:
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            to_reader, to_writer = await asyncio.open_connection(host, port)
            await asyncio.gather(_copy(reader, to_writer), _copy(to_reader, writer))
        writer.close()

    server = await asyncio.start_server(pass_on, API_SERVICE, PORT)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one end is closed; then so is the other."""
    with contextlib.suppress(OSError):
        while block := await reader.read(BUFFER_BYTES):
            writer.write(block)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


if __name__ == "__main__":
    sys.exit(main())
