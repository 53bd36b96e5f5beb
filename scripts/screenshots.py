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
DESKTOP, PHONE = (1440, 1300), (390, 844)
TEST = "from {module} import inside\n\n\ndef test_{name}():\n    assert inside({arguments})\n"
LATER = {
    "The last day of a booking is not counted": ("bookings", "    return first <= day < last\n", "3, 1, 3"),
    "Prices without cents are refused": ("tills", "    raise KeyError(day)\n", "1, 1, 3"),
    "The first seat of a row is never free": ("seats", "    return first < day <= last\n", "1, 1, 3"),
}
"""Repairs without a model, by issue: a module, the body of its one function, and what must be true."""


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
        page.locator('[data-agent="debugger"]').get_by_text("divmod").wait_for(timeout=60_000)
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
    for title, (module, body, arguments) in LATER.items():
        files = {
            f"{module}.py": f"def inside(day, first, last):\n{body}",
            f"test_{module}.py": TEST.format(module=module, name=module, arguments=arguments),
        }
        folder = make_files(server.home / module, files)
        wish = {"repository": str(folder), "issue": title, "workflow": "search"}
        wish["target_tests"] = [f"test_{module}.py::test_{module}"]
        server.outcome_of(server.ask("/v1/runs", wish)["id"], 120)
    page = open_page(browser, server, (1280, 720))
    page.goto("/")
    page.locator(".run-item").nth(len(LATER)).wait_for()
    take(page, "runs")
    page.goto("/#/new")
    page.get_by_label("Repository").fill("/srv/repositories/shop")
    page.get_by_label("Issue").fill(ISSUE)
    take(page, "new-run")
    page.goto("/#/evaluation/quixbugs.json")
    page.locator(".plot canvas").first.wait_for()
    take(page, "evaluation")
    page.goto("/#/memory")
    page.get_by_label("Find similar issues").fill("a cent is lost when a bill is split")
    page.locator(".score").first.wait_for()
    page.get_by_text("The fix").first.click()
    take(page, "memory")
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
