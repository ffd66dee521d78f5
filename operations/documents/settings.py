"""docs/settings.md: every environment variable of every process, from its Settings class."""

from __future__ import annotations

import inspect
from typing import Final

from pydantic import SecretStr
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from operations.documents.discovery import modules
from shared.runtime.settings import Settings

HEADER: Final = """\
<!-- Generated from the Settings classes by `make generated`: change those, not this file. -->

# Settings

Every process reads its settings from the environment. A wrong or missing one ends it at once with
a message that names it.
"""


def render() -> str:
    """The text of the document."""
    sections = [_section(one) for one in _classes()]
    return "\n".join([HEADER, *sections])


def _classes() -> list[type[BaseSettings]]:
    """The common class first, then the others by module."""
    found: dict[type[BaseSettings], None] = {Settings: None}
    for module in modules("settings"):
        for one in vars(module).values():
            own = inspect.isclass(one) and one.__module__ == module.__name__
            if own and issubclass(one, BaseSettings):
                found[one] = None
    return list(found)


def _section(one: type[BaseSettings]) -> str:
    owner = one.__module__.removesuffix(".settings")
    title = "All services" if one is Settings else f"`{owner}`"
    inherited = Settings.model_fields if one is not Settings else {}
    prefix = one.model_config.get("env_prefix", "")
    lines = [f"## {title}", "", (inspect.getdoc(one) or "").split("\n")[0], ""]
    lines += ["| Variable | Default | Meaning |", "|---|---|---|"]
    lines += [
        f"| `{prefix}{name.upper()}` | {_default(info)} | {_escaped(info.description or '')} |"
        for name, info in one.model_fields.items()
        if name not in inherited or not issubclass(one, Settings)
    ]
    return "\n".join([*lines, ""])


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "(required)"
    value = info.get_default(call_default_factory=True, validated_data={})
    if isinstance(value, SecretStr):
        return "(secret)" if value.get_secret_value() else ""
    return f"`{value}`" if str(value) else ""


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
