"""An API server of a test: it answers what the test says and notes what it is asked."""

from typing import Any

import yaml
from aiohttp import web

OURS = {"app.kubernetes.io/managed-by": "muster", "muster.dev/instance": "default"}


class Server:
    """Answers each request by `answer`, and notes what was asked."""

    def __init__(self):
        self.asked: list[Any] = []
        self.queries: list[Any] = []
        self.port = 0
        self.site: Any = None
        self.most_at_once = 0
        self.at_once = 0
        self.answer: Any = None

    async def handle(self, request):
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        body = await request.json() if request.can_read_body else None
        self.queries.append(request.query)
        self.asked.append((request.method, request.path, body, request.headers))
        try:
            return await self.answer(request)
        finally:
            self.at_once -= 1


def write_config(path, port, token="abc"):
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    return path


def answering(status, body=None, headers=None):
    async def answer(request):
        return web.json_response(body or {}, status=status, headers=headers)

    return answer


def in_turn(*answers):
    left = list(answers)

    async def answer(request):
        return await (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


async def one(cluster, operation):
    return (await cluster.apply([operation]))[0]
