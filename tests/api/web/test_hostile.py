"""Nothing that a model or a repository says becomes more than text."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.api.web.conftest import Server, Watched
from tests.api.web.scenario import Pace, make_files
from tests.support.model_server import Reply

SCRIPT = "<script>window.pwned = 1</script>"
HANDLER = '<img src=x onerror="window.pwned = 2"><svg onload="window.pwned = 3"></svg>'
LINK = '<a href="javascript:window.pwned = 4">click</a>'
ANSI = "\x1b[31mred\x1b[0m\x1b]0;title\x07"
TURNED = "safe\u202etxt.exe\u2066 \u200f"
LONG = "x" * 1_000_000
HOSTILE = "\n".join((SCRIPT, HANDLER, LINK, ANSI, TURNED))


def pieces(text: str, size: int = 20_000) -> tuple[str, ...]:
    return tuple(text[start : start + size] for start in range(0, len(text), size))


def test_hostile_text_is_inert_and_a_line_of_a_megabyte_does_not_freeze(
    page: Page, server: Server, shop: Path, pace: Pace
) -> None:
    pace.reset()
    pace.instead["planner"] = Reply(pieces=(HOSTILE, "\n", *pieces(LONG)), delay_s=0.01)
    pace.instead["coder"] = Reply(HOSTILE)
    issue = f"{HANDLER}{SCRIPT}\n\n{HOSTILE}"
    run = server.ask("/v1/runs", {"repository": str(shop), "issue": issue})["id"]
    page.goto(f"/#/runs/{run}")
    expect(page.locator('[data-agent="coder"]').first).to_contain_text("window.pwned = 1", timeout=60_000)
    started = time.monotonic()
    assert page.evaluate("document.querySelectorAll('main').length") == 1
    assert time.monotonic() - started < 1.0
    server.outcome_of(run)
    expect(page.locator(".run")).to_have_attribute("data-stream", "ended")
    text = page.locator('[data-agent="coder"]').inner_text()
    assert SCRIPT in text
    assert HANDLER in text
    assert "\u241b[31mred" in text
    assert "\u27e8U+202E\u27e9" in text
    shown = page.evaluate("document.body.textContent")
    assert not any(mark in shown for mark in "\x1b\u202e\u2066\u200f")
    assert len(shown) < 400_000
    assert HANDLER in page.get_by_role("heading", level=1).inner_text()
    assert page.evaluate("window.pwned") is None
    assert page.locator("img, main svg[onload], a[href^='javascript']").count() == 0
    page.goto("/")
    expect(page.locator(".run-item").first).to_contain_text("<img src=x")
    assert page.evaluate("window.pwned") is None
    pace.reset()


def test_the_browser_itself_refuses_markup_from_text(watched: Watched) -> None:
    """The content policy stands behind the code: no inline script, no other host, no innerHTML."""
    page = watched.page
    page.goto("/")
    done = page.evaluate(
        """async () => {
          const out = {};
          const script = document.createElement('script');
          try { script.text = 'window.pwned = 5'; document.head.append(script); } catch {}
          try { document.body.innerHTML = '<b>x</b>'; } catch { out.html = 'refused'; }
          out.other = await fetch('http://127.0.0.1:9/').then(() => 'asked', () => 'refused');
          out.pwned = window.pwned ?? null;
          return out;
        }"""
    )
    assert done["html"] == "refused"
    assert done["other"] == "refused"
    assert done["pwned"] is None


def test_logs_of_tests_are_text_too(page: Page, server: Server, pace: Pace) -> None:
    """What the repository's own tests print is as hostile as a model."""
    pace.reset()
    pace.instead["coder"] = Reply(HOSTILE)
    folder = make_files(
        server.home / "hostile",
        {
            "thing.py": "def f():\n    return 1\n",
            "test_thing.py": (
                "from thing import f\n\n\ndef test_f():\n"
                f"    print({SCRIPT!r}, {ANSI!r}, {TURNED!r}, 'y' * 300_000)\n"
                f"    assert f() == 2, {HANDLER!r}\n"
            ),
        },
    )
    wish = {"repository": str(folder), "issue": "f gives 1", "workflow": "oneshot"}
    run = server.ask("/v1/runs", wish | {"target_tests": ["test_thing.py::test_f"]})["id"]
    server.outcome_of(run, 90)
    page.goto(f"/#/runs/{run}")
    page.locator(".test-name").first.click()
    expect(page.locator(".said").first).to_contain_text("onerror")
    page.get_by_text("Logs of").click()
    page.locator(".execution").first.click()
    expect(page.get_by_role("region", name="log of base").last).to_contain_text("test session starts")
    shown = page.evaluate("document.body.textContent")
    assert not any(mark in shown for mark in "\x1b\u202e\u2066\u200f")
    assert page.evaluate("window.pwned") is None
    pace.reset()
