"""Watching and steering a run in a real browser: real server and sandbox, a model that streams."""

from __future__ import annotations

import re
import time
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.api.web.conftest import Server, Watched
from tests.api.web.scenario import AT_ONCE, ISSUE, PLAN, RECEIPT, RIGHT, TESTS, TITLE, VERDICT, WRONG, Pace
from tests.support.model_server import Reply, ScriptedModel

SAID = {
    "planner": PLAN,
    "coder": WRONG + RECEIPT,
    "tester": TESTS,
    "debugger": RIGHT,
    "critic": VERDICT,
}


def start_from_form(page: Page, repository: Path) -> str:
    """Fill in the form as a person does; the id of the run that it leads to."""
    page.goto("/")
    page.get_by_role("link", name="New run").click()
    page.get_by_label("Repository").fill(str(repository))
    page.get_by_label("Issue").fill(ISSUE)
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"#/runs/"))
    return page.url.rpartition("/")[2]


def lane(page: Page, agent: str) -> str:
    """Everything that the lane of an agent shows."""
    return "".join(page.locator(f'[data-agent="{agent}"] pre.stream').all_inner_texts())


def wait_for_words(page: Page, agent: str, text: str) -> None:
    expect(page.locator(f'[data-agent="{agent}"]')).to_contain_text(text, timeout=30_000)


def test_from_the_form_to_the_patch_with_a_reload_in_the_middle(
    page: Page, server: Server, shop: Path, pace: Pace
) -> None:
    pace.reset(0.004)
    pace.by_agent["coder"] = 0.025
    run = start_from_form(page, shop)
    wait_for_words(page, "coder", "round every share")
    assert server.ask(f"/v1/runs/{run}")["status"] == "running"
    before = lane(page, "coder")
    assert before
    assert WRONG.startswith(before)
    assert len(before) < len(WRONG)
    page.reload()
    wait_for_words(page, "coder", before[-20:].strip())
    assert lane(page, "planner") == PLAN
    expect(page.locator('[data-node="code"]')).to_have_attribute("data-state", "active")
    expect(page.locator(".figures .pill")).to_have_text("verified", timeout=60_000)
    assert {agent: lane(page, agent) for agent in SAID} == SAID
    assert page.locator(".round").count() == 2
    assert server.outcome_of(run) == "verified"


def test_a_finished_run_says_everything_and_hands_over_the_patch(
    page: Page, server: Server, finished: str
) -> None:
    page.goto(f"/#/runs/{finished}")
    expect(page.get_by_role("heading", level=1)).to_have_text(TITLE)
    expect(page.locator('.step[data-progress="done"]')).to_have_count(3)
    expect(page.locator(".round.refused")).to_contain_text("8 tests that passed on the base fail now")
    expect(page.locator(".round.verified")).to_contain_text("1 target test failed before, pass now")
    for agent, text in SAID.items():
        wait_for_words(page, agent, text.split()[-1])
        assert lane(page, agent) == text
    page.get_by_role("button", name="Copy patch").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    patch = (server.home / "data" / "runs" / finished / "patch.diff").read_bytes()
    assert page.evaluate("navigator.clipboard.readText()").encode() == patch
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.path().read_bytes() == patch


def test_a_test_opens_what_it_said_and_the_whole_log(page: Page, finished: str) -> None:
    page.goto(f"/#/runs/{finished}")
    row = page.locator("tr[data-test$=test_no_cent_is_lost]")
    expect(row).to_contain_text("fixed")
    row.get_by_role("button").click()
    expect(
        page.get_by_role("region", name=re.compile("failure of .*test_no_cent_is_lost on base"))
    ).to_contain_text("assert 999 == 1000")
    page.get_by_text("Logs of").click()
    page.locator(".execution").first.click()
    page.get_by_role("button", name="Whole log").click()
    expect(page.get_by_role("region", name="log of base")).to_contain_text("test session starts")
    page.get_by_label("Find a test id").fill("euros")
    page.get_by_role("button", name=re.compile("^All")).click()
    expect(page.locator(".matrix tbody tr[data-test]")).to_have_count(3)


def test_a_changed_line_tells_its_responsibility_and_evidence_by_keyboard(page: Page, finished: str) -> None:
    page.goto(f"/#/runs/{finished}")
    why = page.get_by_role("button", name="Why is line 13 of shop/money.py added?")
    why.focus()
    page.keyboard.press("Enter")
    audit = page.get_by_role("complementary", name="Why line 13?")
    expect(audit).to_contain_text("S1")
    expect(audit).to_contain_text("Hand out the remainder of the division")
    expect(audit).to_contain_text("shop/money.py::split")
    expect(audit).to_contain_text("by the debugger")
    expect(audit).to_contain_text("test_no_cent_is_lost")
    expect(audit).to_contain_text("16 tests passed before and still pass")
    page.keyboard.press("Escape")
    expect(audit).to_have_count(0)
    expect(why).to_be_focused()


def test_cancel_then_resume_pays_nothing_twice(
    page: Page, server: Server, shop: Path, pace: Pace, model: ScriptedModel
) -> None:
    pace.reset()
    pace.at_once = True
    pace.by_agent["tester"] = 0.5
    before = len(model.requests)
    run = start_from_form(page, shop)
    wait_for_words(page, "tester", "python")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".run")).to_have_attribute("data-status", "cancelled", timeout=30_000)
    pace.by_agent.clear()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".figures .pill")).to_have_text("verified", timeout=60_000)
    assert server.outcome_of(run) == "verified"
    asked = [body["_agent"] for body in model.requests[before:]]
    assert asked.count("planner") == 1
    assert asked.count("coder") == 2
    assert lane(page, "planner") == PLAN


def test_the_page_says_that_the_server_is_gone_and_goes_on_when_it_is_back(
    watched: Watched, server: Server, shop: Path, pace: Pace
) -> None:
    page = watched.page
    pace.reset()
    pace.at_once = True
    pace.by_agent["coder"] = 0.1
    run = start_from_form(page, shop)
    wait_for_words(page, "coder", "Only as many")
    server.kill()
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    assert lane(page, "planner") == PLAN
    pace.by_agent.clear()
    server.start()
    expect(page.get_by_text("The server does not answer")).to_have_count(0)
    expect(page.locator(".figures .pill")).to_have_text("verified", timeout=60_000)
    said = {"planner": PLAN, "coder": AT_ONCE + RECEIPT, "tester": TESTS, "critic": VERDICT}
    assert {agent: lane(page, agent) for agent in said} == said
    assert server.outcome_of(run) == "verified"


def test_runs_are_found_by_state_and_words(page: Page, finished: str) -> None:
    page.goto("/")
    expect(page.locator(f'a[href="#/runs/{finished}"]')).to_contain_text(TITLE)
    page.get_by_label("Find an issue or a repository").fill("no such words anywhere")
    expect(page.get_by_text("No run is like that")).to_be_visible()
    page.get_by_label("Find an issue or a repository").fill("loses cents")
    page.get_by_role("button", name="Finished").click()
    page.get_by_label("outcome").select_option("verified")
    expect(page.locator(f'a[href="#/runs/{finished}"]')).to_be_visible()


def test_a_refused_repository_is_said_in_the_form(watched: Watched) -> None:
    page = watched.page
    page.goto("/#/new")
    page.get_by_label("Repository").fill("/etc")
    page.get_by_label("Issue").fill("a wish")
    page.get_by_role("button", name="Start the run").click()
    expect(page.get_by_role("alert")).to_contain_text("outside the folders")
    assert page.get_by_label("Issue").input_value() == "a wish"


def test_memory_knows_the_repair(page: Page, finished: str) -> None:
    page.goto("/#/memory")
    expect(page.locator(".card").first).to_contain_text(TITLE)
    page.get_by_label("Find similar issues").fill("a cent is lost when a bill is split")
    expect(page.locator(".score").first).to_be_visible()
    page.get_by_text("The fix").first.click()
    expect(page.get_by_role("article", name="changes of shop/money.py").first).to_contain_text("divmod")


def test_a_burst_of_tokens_costs_few_updates_of_the_page(page: Page, shop: Path, pace: Pace) -> None:
    pace.reset()
    pace.instead["planner"] = Reply("word " * 10_000 + PLAN)
    start_from_form(page, shop)
    wait_for_words(page, "coder", "The remainder")
    started = time.monotonic()
    assert (
        page.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )
        == 1
    )
    assert time.monotonic() - started < 1.0
    shown = lane(page, "planner")
    assert len(shown) < 48_500
    assert shown.endswith(PLAN[-200:])
    pace.reset()
