"""What must be there before the first request: an operator's key and the default documents.

Both are idempotent. The key is `MUSTER_BOOTSTRAP_KEY`, or the content of
`MUSTER_ADMIN_KEY_FILE`, which is made when it does not exist; only its hash is stored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from services.gateway.app.context import GatewayContext
from services.gateway.documents.documents import BY_KIND, default_documents
from services.gateway.documents.keys import NewKey, mint, prefix_of
from services.gateway.http.authorisation import Role
from services.gateway.organisation.key_routes import insert_order
from services.gateway.organisation.writing import apply_document
from shared.ports.errors import MusterError, Stale

ACTOR = "bootstrap"
RETRY_SECONDS = 0.5


async def prepare(gateway: GatewayContext) -> None:
    """Try until it is so: the database may still be starting."""
    while True:
        try:
            await _ensure_key(gateway)
            await _ensure_documents(gateway)
            gateway.prepared = True
            return
        except MusterError as error:
            gateway.log.warning("not prepared yet", error=str(error))
            await asyncio.sleep(RETRY_SECONDS)


async def _ensure_key(gateway: GatewayContext) -> None:
    text = gateway.settings.bootstrap_key.get_secret_value() or await asyncio.to_thread(
        _file, gateway
    )
    if not text:
        return
    prefix = prefix_of(text)
    if prefix is None:
        rule = "the bootstrap key must be mk_<prefix>_<secret>, or 40 or more of A-Za-z0-9_-"
        raise SystemExit(rule)
    rows = await gateway.reader.fetch("SELECT 1 FROM gateway.api_key WHERE prefix = $1", prefix)
    if not rows:
        key = NewKey(prefix=prefix, text=text)
        await gateway.commit(insert_order(gateway, key, "", Role.OPERATOR, "bootstrap", ACTOR))
        gateway.keys.forget(prefix)


def _file(gateway: GatewayContext) -> str:
    """The key in the file, made now if there is none; "" without a file's name."""
    if not gateway.settings.admin_key_file:
        return ""
    path = Path(gateway.settings.admin_key_file)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = mint(gateway.random_bytes).text
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return path.read_text().strip()
        with os.fdopen(descriptor, "w") as file:
            file.write(text + "\n")
    return path.read_text().strip()


async def _ensure_documents(gateway: GatewayContext) -> None:
    kind = BY_KIND["priority_class"]
    for document in default_documents():
        organisation = await gateway.organisation.refresh()
        while document.name not in organisation.priority_classes:
            with contextlib.suppress(Stale):  # another gateway was faster
                await apply_document(gateway, kind, document, organisation, ACTOR)
            organisation = await gateway.organisation.refresh()
