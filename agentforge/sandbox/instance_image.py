"""Images that hold a checkout of their own, as benchmark instances do: its tree, and an image for the agent.

Such an image has the repository with all its history at `/testbed` and an environment that
`activate` switches on. The agent's image is made from it: no history, what an installation left in
the checkout kept aside and laid under every later tree, and whatever is installed "editable" from
the checkout read from the sandbox's own place for trees, so that what runs is the candidate.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs

from agentforge.config.settings import SandboxSettings
from agentforge.core.errors import ImageError
from agentforge.core.tree import FileMode, Tree, TreeFile
from agentforge.sandbox import labels
from agentforge.sandbox.archive import check_name
from agentforge.sandbox.base_image import get_image
from agentforge.sandbox.builder import Progress, build_container
from agentforge.sandbox.container import Guard, started
from agentforge.sandbox.environments import GENERATED, GENERATED_DIR
from agentforge.sandbox.limits import MB, REPO, ContainerPlan
from agentforge.sandbox.own_image import named_image

if TYPE_CHECKING:
    from docker import DockerClient

PYTHON = "agentforge.python"
CHECKOUT = "/testbed"
ACTIVATE = "/opt/miniconda3/bin/activate"
ENVIRONMENT_NAME = "testbed"
MAX_TREE_MB = 1024
MAX_FILES = 200_000
_READ_TIMEOUT_S = 180.0
_RECIPE = "3"
_NO_COMMIT = 41
_OTHER_COMMIT = 42
# A file, since older gits do not take `safe.directory` from the command line.
_GIT = """set -e
export HOME="${TMPDIR:-/tmp}" GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0
printf '[safe]\\n\\tdirectory = *\\n[core]\\n\\tfsmonitor = false\\n\\thooksPath = /dev/null\\n' \\
 > "$HOME/.gitconfig"
cd "$1"
"""
# A published image is at the commit, or at one of its maker's own on top: what lies further holds later work.
_READ = f"""{_GIT}
git cat-file -e "$2^{{commit}}" 2>/dev/null || exit {_NO_COMMIT}
git merge-base --is-ancestor "$2" HEAD || exit {_OTHER_COMMIT}
[ "$(git rev-list --count "$2..HEAD")" -le 1 ] || exit {_OTHER_COMMIT}
git rev-parse --verify 'HEAD^{{commit}}'
git ls-files -z > "$HOME/list"
exec tar --null --no-recursion --hard-dereference --ignore-failed-read -T "$HOME/list" -cf - 2>/dev/null
"""
_DERIVE = f"""{_GIT}
mkdir -p {GENERATED_DIR}
git ls-files -z --others > "$HOME/others"
tar --null --no-recursion --ignore-failed-read --exclude='*.pyc' -T "$HOME/others" -cf - \
 | tar -xf - --no-same-owner -C {GENERATED_DIR}
chmod -R a+rX {GENERATED_DIR}
cd /
find / -xdev -type f \\( -name '*.pth' -o -name '*.egg-link' -o -name '__editable__*' \\) \
 -exec grep -lZ "$1" {{}} + 2>/dev/null | xargs -0 -r sed -i "s#$1#{REPO}#g"
rm -rf "$1"
ln -s {REPO} "$1"
find {GENERATED_DIR} -type f | wc -l
"""
_ACTIVATED = f""". {ACTIVATE} && conda activate {ENVIRONMENT_NAME} && command -v python >/dev/null || exit 1
printf '%s\\n' "$PATH"
python -c 'import sys; print("%d.%d" % sys.version_info[:2])'
"""


# Some projects' environments have no pytest, with which our tests and most of theirs are run.
_WITH_PYTEST = f""". {ACTIVATE} && conda activate {ENVIRONMENT_NAME}
python -c 'import pytest' 2>/dev/null || (unset PIP_NO_INDEX; python -m pip install -q 'pytest<9')
"""


@dataclass(frozen=True)
class Checkout:
    """The tracked files of an image's checkout as they lie there, and the commit it is at."""

    tree: Tree
    head: str


@dataclass
class _Capped:
    """Collects output up to a limit, then calls `over` once and keeps nothing more."""

    limit: int
    over: Callable[[], None]
    data: bytearray = field(default_factory=bytearray)
    full: bool = False

    def write(self, chunk: bytes) -> None:
        if self.full:
            return
        if len(self.data) + len(chunk) > self.limit:
            self.full = True
            self.over()
        else:
            self.data += chunk


def read_checkout(
    client: DockerClient, settings: SandboxSettings, image: str, commit: str, guard: Guard
) -> Checkout:
    """The tree in `image`, which must know `commit`. Read inside a container with every limit; blocks.

    Raises `ImageError` for an image that is missing, holds no such checkout, or too large a one.
    """
    plan = ContainerPlan(
        image=named_image(client, image),
        labels=labels.owner_labels("checkout"),
        memory_mb=settings.memory_mb,
        cpus=settings.cpus,
        pids=settings.pids,
        workspace_mb=16,
        tmp_mb=settings.tmp_mb,
        runtime=settings.runtime,
    )
    with started(client, plan, guard) as box:
        output = _Capped(MAX_TREE_MB * MB, box.kill)
        argv = ("sh", "-c", _READ, "sh", CHECKOUT, commit)
        ended = box.run(argv, output.write, timeout_s=_READ_TIMEOUT_S)
    if output.full:
        raise ImageError(f"{image}: its {CHECKOUT} is larger than {MAX_TREE_MB} MB")
    if ended.exit_code == _NO_COMMIT:
        raise ImageError(
            f"{image}: its {CHECKOUT} does not know the commit {commit[:12]}",
            hint="this image belongs to another instance; see --image-map",
        )
    if ended.exit_code == _OTHER_COMMIT:
        raise ImageError(
            f"{image}: its {CHECKOUT} is not at the commit {commit[:12]}, or has others on top of it",
            hint="this image belongs to another instance; see --image-map, or give --mirrors",
        )
    if ended.exit_code != 0:
        said = bytes(output.data[-300:]).decode("utf-8", "replace").strip()
        raise ImageError(f"{image}: its {CHECKOUT} cannot be read (exit code {ended.exit_code}): {said}")
    end = output.data.find(b"\n")
    head, archive = bytes(output.data[:end]), bytes(memoryview(output.data)[end + 1 :])
    output.data = bytearray()  # a second copy of a large tree is enough
    return Checkout(unpack_tree(archive, image), head.decode("ascii", "replace").strip())


def unpack_tree(archive: bytes, image: str) -> Tree:
    """Files and links of a tar archive that came out of `image`; its names are not trusted."""
    files: dict[str, TreeFile] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as opened:
            for member in opened:
                entry = _entry(opened, member)
                if entry is not None:
                    files[member.name] = entry
                if len(files) > MAX_FILES:
                    raise ImageError(f"{image}: its {CHECKOUT} holds more than {MAX_FILES} files")
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise ImageError(f"{image}: the archive of its {CHECKOUT} is damaged: {error}") from error
    links = {path for path, entry in files.items() if entry.mode == "120000"}
    for path in files:
        check_name(path, links)
    return Tree(files)


def _entry(opened: tarfile.TarFile, member: tarfile.TarInfo) -> TreeFile | None:
    if member.issym():
        return TreeFile(member.linkname.encode("utf-8", "surrogateescape"), "120000")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.sparse:
        return None
    stream = opened.extractfile(member)
    mode: FileMode = "100755" if member.mode & 0o100 else "100644"
    return TreeFile(stream.read() if stream is not None else b"", mode)


def agent_image(
    client: DockerClient, settings: SandboxSettings, image: str, guard: Guard, progress: Progress
) -> str:
    """The name of the image in which the agent's candidates run, made from `image` once; blocks.

    Raises `ImageError` where `image` is missing or is not made like a benchmark instance.
    """
    from filelock import FileLock

    source = named_image(client, image)
    key = "instance-" + hashlib.sha256(f"{_RECIPE}\0{_DERIVE}\0{source}".encode()).hexdigest()[:20]
    tag = f"{labels.ENV_REPOSITORY}:{key}"
    lock = Path(platformdirs.user_cache_dir("agentforge")) / f"env-{key}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        if get_image(client, tag) is None:
            progress(
                f"making the agent's image of {image}: no history, candidates in the place of its checkout"
            )
            _derive(client, settings, image, source, tag, guard, progress)
    return tag


def python_of(client: DockerClient, image: str) -> tuple[int, int]:
    """Version of the Python in an agent's image, (0, 0) where the image does not say."""
    found = get_image(client, image)
    major, _, minor = (found.labels.get(PYTHON, "") if found is not None else "").partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def _derive(
    client: DockerClient,
    settings: SandboxSettings,
    image: str,
    source: str,
    tag: str,
    guard: Guard,
    progress: Progress,
) -> None:
    hint = f"it must hold a repository at {CHECKOUT} and {ACTIVATE} with an environment `{ENVIRONMENT_NAME}`"
    with build_container(client, source, settings, own_image=True, trusted_root=True, guard=guard) as builder:
        activated = builder.run(
            ["bash", "-c", _ACTIVATED], user="0:0", doing=f"activating the environment of {image}", hint=hint
        ).split("\n")
        path, version = activated[-3:-1] if len(activated) > 2 else ("", "")
        if not path.startswith("/"):
            raise ImageError(f"{image}: its environment cannot be activated", hint=hint)
        try:
            builder.run(["bash", "-c", _WITH_PYTEST], user="0:0", doing="adding pytest to the environment")
        except ImageError as error:
            progress(f"{image}: there is no pytest in it, and none can be installed: {error.what[:200]}")
        counted = builder.run(
            ["sh", "-c", _DERIVE, "sh", CHECKOUT],
            user="0:0",
            doing=f"taking the history out of {image}",
            hint=hint,
        )
        image_labels = {
            labels.ROLE: labels.ROLE_ENV,
            labels.RECIPE: tag.rpartition(":")[2],
            labels.CREATED: datetime.now(UTC).isoformat(timespec="seconds"),
            GENERATED: counted.split()[-1],
            PYTHON: version,
        }
        builder.commit(tag, image_labels, environment={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"})
