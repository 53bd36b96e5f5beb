"""Takes the pictures of docs/images from a real run: `python scripts/screenshots.py` (Docker, Chromium).

The model is the scripted one of the browser tests; server, sandbox and page are the real ones.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.api.web.conftest import CHROMIUM, FLAGS, Server  # noqa: E402
from tests.api.web.scenario import ISSUE, Pace, make_files, make_repository, script  # noqa: E402
from tests.support.model_server import ScriptedModel  # noqa: E402

IMAGES = ROOT / "docs" / "images"
DESKTOP, PHONE = (1440, 960), (390, 844)
LATER = {
    "csvkit": "Line breaks inside quoted fields are lost",
    "calendar": "A meeting on the last day of February moves to March",
}
BUG = {
    "span.py": "def days(first, last):\n    return last - first\n",
    "test_span.py": "from span import days\n\n\ndef test_both_ends_count():\n    assert days(1, 3) == 3\n",
}


def open_page(browser: Browser, server: Server, size: tuple[int, int], scheme: str = "light") -> Page:
    context = browser.new_context(
        base_url=server.url,
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,  # type: ignore[arg-type]
        device_scale_factor=2 if size == PHONE else 1,
    )
    return context.new_page()


def take(page: Page, name: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    path = IMAGES / f"{name}.png"
    page.screenshot(path=path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} kB")
    assert path.stat().st_size < 300_000, f"{path} is too large to be committed"


def watch_live(browser: Browser, server: Server, pace: Pace) -> str:
    """The run while the debugger is writing, on the desktop in both colours and on a phone."""
    pace.reset(0.012)
    pace.by_agent["debugger"] = 0.16
    pages = {
        "run-live": open_page(browser, server, DESKTOP),
        "run-live-dark": open_page(browser, server, DESKTOP, "dark"),
        "run-phone": open_page(browser, server, PHONE),
    }
    run = str(server.ask("/v1/runs", {"repository": str(server.home / "shop"), "issue": ISSUE})["id"])
    for page in pages.values():
        page.goto(f"/#/runs/{run}")
    for name, page in pages.items():
        page.locator('[data-agent="debugger"]').get_by_text("Only as many").wait_for(timeout=60_000)
        take(page, name)
        page.context.close()
    return run


def show_finished(browser: Browser, server: Server, run: str) -> None:
    for name, scheme in (("run-audit", "light"), ("run-audit-dark", "dark")):
        page = open_page(browser, server, DESKTOP, scheme)
        page.goto(f"/#/runs/{run}")
        page.get_by_role("button", name="Why is line 13 of shop/money.py added?").click()
        page.locator(".changes").wait_for()
        page.locator(".run-grid").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.querySelector('.run-grid').offsetTop - 20)")
        time.sleep(1.5)
        take(page, name)
        page.context.close()


def show_lists(browser: Browser, server: Server) -> None:
    for name, title in LATER.items():
        folder = make_files(server.home / name, BUG)
        body = {"repository": str(folder), "issue": title, "workflow": "search"}
        server.outcome_of(server.ask("/v1/runs", body)["id"], 120)
    page = open_page(browser, server, (1280, 620))
    page.goto("/")
    page.locator(".run-item").nth(len(LATER)).wait_for()
    take(page, "runs")
    page.goto("/#/new")
    page.get_by_label("Repository").fill("/srv/repositories/shop")
    page.get_by_label("Issue").fill(ISSUE)
    take(page, "new-run")
    page.context.close()


def main() -> None:
    pace = Pace()
    with (
        tempfile.TemporaryDirectory(prefix="agentforge-screens-") as home,
        ScriptedModel(script(pace)) as model,
        sync_playwright() as playwright,
    ):
        server = Server(Path(home), model.base_url)
        make_repository(server.home / "shop")
        server.start()
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS.split())
        try:
            run = watch_live(browser, server, pace)
            pace.reset()
            assert server.outcome_of(run) == "verified"
            show_finished(browser, server, run)
            show_lists(browser, server)
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
