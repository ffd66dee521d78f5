"""`python -m deploy.local.wheel`: the built wheel holds what it should and imports on its own.

The checkout must not help: every module of the wheel is imported from a folder elsewhere, by a
Python that sees the installed dependencies and not the checkout's `.pth`.
"""

import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from deploy.local.cache import CHECKOUT
from deploy.local.processes import LocalError

PACKAGES = frozenset({"services", "shared", "muster", "operations"})
IMPORT_ALL = """
import importlib, sys
wheel, dependencies, *modules = sys.argv[1:]
sys.path[:0] = [wheel, dependencies]
for name in modules:
    module = importlib.import_module(name)
    assert module.__file__.startswith(wheel), f"{name} came from {module.__file__}"
"""


def main() -> int:
    """Build, look inside, import; the exit code."""
    with tempfile.TemporaryDirectory(prefix="muster-wheel-") as folder:
        wheel = build(Path(folder))
        names = import_all(wheel, Path(folder) / "installed")
    print(f"{wheel.name}: {len(names)} modules import outside the checkout")
    return 0


def build(folder: Path) -> Path:
    """Build the wheel into a folder.

    Raises:
        LocalError: the build failed.
    """
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    _run([sys.executable, "-m", "pip", "wheel", *options, str(CHECKOUT)])
    return next(folder.glob("*.whl"))


def contents(wheel: Path) -> list[PurePosixPath]:
    """The files in a wheel, without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        paths = [PurePosixPath(name) for name in archive.namelist()]
    return [path for path in paths if not path.parts[0].endswith(".dist-info")]


def import_all(wheel: Path, target: Path) -> list[str]:
    """Unpack a wheel and import each of its modules; their names.

    Raises:
        LocalError: one does not import.
    """
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    names = [module_name(path) for path in contents(wheel) if path.suffix == ".py"]
    names = [name for name in names if not name.endswith("__main__")]
    dependencies = sysconfig.get_path("purelib")
    _run([sys.executable, "-I", "-S", "-c", IMPORT_ALL, str(target), dependencies, *names])
    return names


def module_name(path: PurePosixPath) -> str:
    """The dotted name of a Python file."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode != 0:
        raise LocalError(f"{' '.join(command[:4])} failed:\n{(done.stdout + done.stderr)[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
