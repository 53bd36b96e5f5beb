"""The page for everybody: axe finds no serious fault, everything fits a phone, the keyboard reaches it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from agentforge.api.tokens import add_token
from tests.api.web.conftest import CLIENT, Server
from tests.support.model_server import ScriptedModel

AXE = CLIENT / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("#/", "#/new", "#/memory", "#/index", "#/evaluation", "#/evaluation/quixbugs.json")


def faults(page: Page) -> list[str]:
    """Serious and critical findings of axe, each with its first place."""
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0].get('failureSummary', '')}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(browser: Browser, server: Server, finished: str, scheme: str) -> None:
    # axe is put in from outside the page, which the page's own policy would rightly refuse.
    context = browser.new_context(base_url=server.url, color_scheme=scheme, bypass_csp=True)  # type: ignore[arg-type]
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")
    context.add_init_script(path=AXE)
    for address in (*PAGES, f"#/runs/{finished}"):
        page.goto(f"/{address}")
        expect(page.locator("main h1")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert faults(page) == [], f"{address} in {scheme}"
    page.locator(".why").first.click()
    page.locator(".test-name").first.click()
    page.get_by_text("tests that passed on the base").click()
    expect(page.locator(".audit")).to_be_visible()
    assert faults(page) == []
    context.close()


def test_everything_fits_a_phone(browser: Browser, server: Server, finished: str) -> None:
    context = browser.new_context(base_url=server.url, viewport={"width": 360, "height": 740}, has_touch=True)
    page = context.new_page()
    for address in (*PAGES, f"#/runs/{finished}"):
        page.goto(f"/{address}")
        expect(page.locator("main h1")).to_be_visible()
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, address
    expect(page.locator(".diff-table.one").first).to_be_visible()
    context.close()


def test_the_keyboard_reaches_content_and_keeps_a_chosen_theme(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("button", name="Dark colours").click()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_token_opens_the_page_and_tickets_open_its_streams(
    browser: Browser, server: Server, model: ScriptedModel, finished: str, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    guarded = Server(tmp_path, model.base_url, "--token-file", str(tokens))
    shutil.copytree(server.home / "data" / "runs" / finished, tmp_path / "data" / "runs" / finished)
    token = add_token(tokens, "alice")
    guarded.start()
    context = browser.new_context(base_url=guarded.url)
    page = context.new_page()
    streams: list[str] = []
    page.on("request", lambda asked: streams.append(asked.url) if "/events" in asked.url else None)
    page.goto(f"/#/runs/{finished}")
    page.get_by_label("Token").fill("not the token")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Go on").click()
    expect(page.locator(".round.verified")).to_be_visible()
    expect(page.locator(".figures .pill")).to_have_text("verified")
    assert streams
    assert all("ticket=" in url and token not in url for url in streams)
    context.close()
    guarded.stop()


def test_results_of_experiments_are_tables_and_plots(page: Page) -> None:
    page.goto("/#/evaluation")
    page.get_by_role("link", name=re.compile("quixbugs")).click()
    expect(page.get_by_role("region", name="table of rows")).to_contain_text("bitcount")
    expect(page.locator(".plot canvas").first).to_be_visible()


def test_the_index_is_searched(page: Page, shop: Path) -> None:
    page.goto("/#/index")
    page.get_by_label("Repository").fill(str(shop))
    page.get_by_label("What do you look for?").fill("split a bill")
    expect(page.locator(".hit", has_text="shop/money.py:9-14")).to_contain_text("split")
