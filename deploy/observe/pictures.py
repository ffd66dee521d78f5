"""`python -m deploy.observe.pictures`: dashboards as pictures, with what a Prometheus answers.

Panels are drawn by Grafana's own components (@grafana/ui) in a headless Chromium; Grafana itself
is not run. Kinds of panels that the package has no component for say so in their place. It needs
npm and chromium: `deploy/grafana/pictures/package.json` names what npm fetches.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Final

from deploy.local.cache import CHECKOUT, cache_folder
from deploy.observe.dashboards.__main__ import FOLDER
from deploy.observe.expressions import plain

PAGE: Final = CHECKOUT / "deploy" / "grafana" / "pictures"
PICTURES: Final = CHECKOUT / "docs" / "pictures"
SHOWN: Final = ("muster-fleet", "muster-queues", "muster-gpu-health", "muster-cost")
POINTS: Final = 240
ROW_PIXELS, COLUMN_PIXELS, GRID_COLUMNS, EDGE_PIXELS = 38, 66, 24, 70
"""As in page.tsx."""
RENDER_MS: Final = 15_000
BROWSER: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--force-device-scale-factor=0.7",
    f"--virtual-time-budget={RENDER_MS}",
)
Json = dict[str, Any]


def main() -> int:
    """Draw what is named; the exit code."""
    arguments = _parser().parse_args()
    missing = [name for name in ("npm", "chromium") if shutil.which(name) is None]
    if missing:
        print(f"missing: apt-get install {' '.join(missing)}", file=sys.stderr)
        return 1
    built = build(cache_folder() / "grafana-pictures")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.dashboards:
        document = json.loads((FOLDER / f"{name}.json").read_text())
        asked = answers(document, arguments.prometheus, minutes=arguments.minutes)
        draw(built, asked, arguments.out / f"{name}.png")
        print(arguments.out / f"{name}.png")
    return 0


def build(folder: Path) -> Path:
    """The page's program, made by npm in this folder; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "page.tsx"):
        shutil.copy(PAGE / name, folder)
    install = ["npm", "install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"]
    subprocess.run(install, cwd=folder, check=True)
    subprocess.run(["npm", "run", "--silent", "page"], cwd=folder, check=True)
    return folder


def answers(document: Json, prometheus: str, *, minutes: int) -> Json:
    """What the page draws: each panel with what its queries are answered over these minutes."""
    until = time.time()
    since = until - minutes * 60
    panels = [
        {
            "panel": panel,
            "answers": [_answer(prometheus, one, since, until) for one in panel["targets"]],
        }
        for panel in document["panels"]
    ]
    return {"title": document["title"], "from": since, "to": until, "panels": panels}


def _answer(prometheus: str, target: Json, since: float, until: float) -> Json:
    asked: Json = {"query": plain(target["expr"])}
    if target["instant"]:
        path = "query"
    else:
        path = "query_range"
        asked |= {"start": since, "end": until, "step": (until - since) / POINTS}
    url = f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(asked)}"
    with urllib.request.urlopen(url, timeout=30) as reply:  # noqa: S310  # the caller chooses it
        series = json.load(reply)["data"]["result"]
    return {"legend": target["legendFormat"], "series": series}


def draw(built: Path, asked: Json, picture: Path) -> None:
    """One picture of one dashboard."""
    data = json.dumps(asked).replace("</", "<\\/")
    page = built / "page.html"
    page.write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="page.css">'
        f'<body style="margin:0"><div id="page"></div><script>window.ASKED={data}</script>'
        '<script src="page.js"></script>'
    )
    places = [one["panel"]["gridPos"] for one in asked["panels"]]
    height = max(one["y"] + one["h"] for one in places) * ROW_PIXELS + EDGE_PIXELS
    size = f"--window-size={GRID_COLUMNS * COLUMN_PIXELS + 24},{height}"
    command = ["chromium", *BROWSER, size, f"--screenshot={picture.resolve()}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m deploy.observe.pictures", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--prometheus", required=True, help="its URL, as `make observe` prints it")
    parser.add_argument("--minutes", type=int, default=15, help="how far back (15)")
    parser.add_argument("--out", type=Path, default=PICTURES, help="folder of the pictures")
    parser.add_argument("dashboards", nargs="*", default=SHOWN, help=f"({' '.join(SHOWN)})")
    return parser


if __name__ == "__main__":
    sys.exit(main())
