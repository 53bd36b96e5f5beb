"""The page for everybody: axe finds no serious fault, everything fits a phone, the keyboard reaches it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.web.conftest import CLIENT, Server

AXE = CLIENT / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("#/", "#/new", "#/memory", "#/index", "#/evaluation")


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
