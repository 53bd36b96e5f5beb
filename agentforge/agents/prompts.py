"""The one loader of prompts: `prompts/<name>.j2`, each with a `system` and a `user` block.

Whatever others wrote (issue, code, test output, episodes, a model's own earlier answer) passes
through the `data` filter: a fence longer than any inside it, so that it cannot end early.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from agentforge.core.chat import Message

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, **values: object) -> tuple[Message, ...]:
    """The messages of prompt `name`. An unknown variable raises `jinja2.UndefinedError`."""
    template = _environment().get_template(f"{name}.j2")
    context = template.new_context(values)
    system, user = ("".join(template.blocks[block](context)).strip() for block in ("system", "user"))
    return (
        Message(role="system", content=system),
        Message(role="user", content=user),
    )


def prompt_names() -> tuple[str, ...]:
    """All prompts, parts (``_name``) left out."""
    names = _environment().list_templates(extensions=["j2"])
    return tuple(name.removesuffix(".j2") for name in names if not name.startswith("_"))


def data(text: str, info: str = "") -> str:
    """`text` in a fence that it cannot close: one backtick more than its longest run (at least three)."""
    text = str(text)  # an undefined variable says so here
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    mark = "`" * max(3, longest + 1)
    body = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{mark}{info}\n{body}{mark}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment as Jinja
    from jinja2 import PackageLoader, StrictUndefined, select_autoescape

    environment = Jinja(
        loader=PackageLoader("agentforge.agents", "prompts"),
        undefined=StrictUndefined,
        autoescape=select_autoescape(enabled_extensions=("html",), default=False),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["data"] = data
    return environment
