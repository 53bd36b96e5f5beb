"""Installing what a repository needs, in a build container, with notes on what was and was not."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentforge.core.errors import ImageError
from agentforge.core.tree import TreeFile
from agentforge.sandbox.archive import pack
from agentforge.sandbox.builder import ENV_DIR, Builder, Progress
from agentforge.sandbox.dependencies import DependencyPlan
from agentforge.sandbox.limits import JOB
from agentforge.sandbox.python_needs import DEFAULT

HINT = "name what is missing with --setup 'pip install …', or bring an image of your own with --image"
_CONSTRAINTS = f"{JOB}/constraints.txt"
# A tree without history tells version plug-ins nothing; they take the version from here.
_VERSION_VARIABLES = ("SETUPTOOLS_SCM_PRETEND_VERSION", "PBR_VERSION", "PDM_BUILD_SCM_VERSION")


@dataclass
class Installer:
    """Runs a plan's steps in `folder`; the lock file's versions are preferred, not demanded."""

    builder: Builder
    plan: DependencyPlan
    folder: str
    progress: Progress
    notes: list[str] = field(default_factory=list)
    _constrained: bool = False

    def install(self) -> list[str]:
        """Notes in words. Raises `ImageError` with the last useful lines where a needed step fails."""
        if self.plan.constraints:
            text = "\n".join(self.plan.constraints) + "\n"
            self.builder.container.put(JOB, pack({"constraints.txt": TreeFile(text.encode())}, "", owner=0))
            self._constrained = True
        for step in self.plan.steps:
            self.progress(f"installing {step.why}")
            try:
                self._pip(step.arguments, f"installing {step.why}")
            except ImageError as error:
                if not step.optional:
                    raise
                self.notes.append(f"could not install {step.why}: {_last(error)}")
            else:
                self.notes.append(f"installed {step.why}")
        if self.plan.project:
            self.progress("installing the project and its dependencies")
            self.notes.append(self._project())
        if self._constrained:
            self.notes.append(f"versions are those of {self.plan.lock}")
        return self.notes

    def _project(self) -> str:
        """Editable first; an old project may need the image's setuptools; at last its dependencies alone."""
        extra = self.plan.extra
        target = f".[{extra}]" if extra else "."
        named = f"the project, editable, with extra {extra}" if extra else "the project, editable"
        doing = "installing the project"
        try:
            self._pip(("-e", target), doing)
        except ImageError as first:
            try:
                self._pip(("--no-build-isolation", "-e", target), doing)
            except ImageError:
                if not self.plan.dependencies:
                    raise first from None
                self._pip(self.plan.dependencies, "installing the project's dependencies")
                only = "installed the dependencies only; the project itself could not be installed: "
                return only + _last(first)
            return f"installed {named}, without build isolation"
        return f"installed {named}"

    def _pip(self, arguments: tuple[str, ...], doing: str) -> None:
        if self._constrained:
            try:
                return self._run((*arguments, "-c", _CONSTRAINTS), doing)
            except ImageError:
                self._constrained = False
                self.notes.append(f"the versions of {self.plan.lock} cannot be installed; others are taken")
        return self._run(arguments, doing)

    def _run(self, arguments: tuple[str, ...], doing: str) -> None:
        told = [f"{name}={self.plan.version}" for name in _VERSION_VARIABLES]
        pip = [f"{ENV_DIR}/bin/python", "-m", "pip", "install", "--no-cache-dir", "--progress-bar=off"]
        if not self.plan.need.allows(DEFAULT):
            pip.append("--ignore-requires-python")  # said in a note already; most code runs all the same
        self.builder.run(["env", *told, *pip, *arguments], workdir=self.folder, doing=doing, hint=HINT)


def _last(error: ImageError) -> str:
    return error.what.splitlines()[-1].strip()
