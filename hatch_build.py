"""Puts the built web client into the wheel, so that its users need neither Node.js nor a build step."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WebClientHook(BuildHookInterface[Any]):
    """Builds agentforge/api/web/dist before a wheel or an sdist; an editable install uses what is there."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        script = Path(self.root) / "scripts" / "web.sh"
        built = Path(self.root) / "agentforge" / "api" / "web" / "dist" / "index.html"
        if script.is_file():
            # The script says itself what is missing; a client that was built before is still good.
            subprocess.run([str(script)], check=False)
        if not built.is_file():
            self.app.display_warning(
                "this build has no web client: install Node.js, run scripts/web.sh, build again"
            )
