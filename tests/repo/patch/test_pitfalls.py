"""Defects of other appliers, each with an input that showed it."""

from __future__ import annotations

import pytest

from agentforge.core.errors import PatchError, RefusalReason
from agentforge.repo.patch import apply_answer, precise_reason
from tests.repo.patch.support import Case, block, check, diff, make_tree, numbered

TWENTY = numbered(20)


def test_af01_a_hunk_far_down_takes_its_own_context() -> None:
    hunk = "@@ -10,3 +10,3 @@\n line 10\n-line 11\n+LINE 11\n line 12\n"
    check(Case("", {"f.py": TWENTY}, diff("f.py", hunk), {"f.py": numbered(20, n11="LINE 11")}))


def test_af02_a_second_hunk_after_the_length_changed() -> None:
    first = "@@ -2,2 +2,4 @@\n line 2\n+new\n+newer\n line 3\n"
    second = "@@ -15,2 +17,1 @@\n line 15\n-line 16\n"
    after = TWENTY.replace("line 2\n", "line 2\nnew\nnewer\n").replace("line 16\n", "")
    check(Case("", {"f.py": TWENTY}, diff("f.py", first, second), {"f.py": after}))


def test_af03_context_is_compared() -> None:
    hunk = "@@ -10,3 +10,3 @@\n COMPLETELY\n-DIFFERENT\n+x\n line 12\n"
    check(Case("", {"f.py": TWENTY}, diff("f.py", hunk), reason="no_match"))


def test_af04_each_file_gets_its_own_hunks() -> None:
    answer = diff("a", "@@ -1 +1 @@\n-A\n+A1\n") + diff("b", "@@ -1 +1 @@\n-B\n+B1\n")
    check(Case("", {"a": "A\n", "b": "B\n"}, answer, {"a": "A1\n", "b": "B1\n"}))


@pytest.mark.parametrize("counts", ["-1,4 +1,4", "-1,3 +1,3", "-1,9 +1,2"])
def test_af05_a_stripped_blank_context_line_is_no_silent_no_op(counts: str) -> None:
    answer = diff("f.py", f"@@ {counts} @@\n a\n-b\n+B\n c\n \n").strip()
    check(Case("", {"f.py": "a\nb\nc\n\nd\n"}, answer, {"f.py": "a\nB\nc\n\nd\n"}))


@pytest.mark.parametrize(
    "around", ["{}", "```python\n{}```\n", "Sure!\n\n```py\n{}```\nHope it helps.\n", "Sure:\n\n{}"]
)
def test_af07_code_is_taken_out_of_fences_and_prose(around: str) -> None:
    answer = around.format("def f():\n    return 2\n")
    check(
        Case(
            "",
            {"f.py": "def f():\n    return 1\n"},
            answer,
            {"f.py": "def f():\n    return 2\n"},
            target="f.py",
        )
    )


def test_af34_the_final_newline_of_a_patch_does_not_matter() -> None:
    hunk = "@@ -10,3 +10,3 @@\n line 10\n-line 11\n+LINE 11\n line 12\n"
    check(Case("", {"f.py": TWENTY}, diff("f.py", hunk).strip(), {"f.py": numbered(20, n11="LINE 11")}))


def test_words_about_binary_files_do_not_drop_a_hunk() -> None:
    answer = diff("f.py", "@@ -1,2 +1,2 @@\n-x\n+Binary files are skipped\n y\n")
    check(Case("", {"f.py": "x\ny\n"}, answer, {"f.py": "Binary files are skipped\ny\n"}))


def test_an_emptied_file_is_no_failure() -> None:
    check(Case("", {"f.py": "x\n"}, diff("f.py", "@@ -1 +0,0 @@\n-x\n"), {"f.py": ""}))


def test_a_git_header_does_not_become_part_of_the_path() -> None:
    answer = "diff --git a/f.py b/f.py\n" + diff("f.py", "@@ -1 +1 @@\n-x\n+y\n")
    check(Case("", {"f.py": "x\n"}, answer, {"f.py": "y\n"}))


def test_a_new_side_without_an_old_side_is_read() -> None:
    check(Case("", {"f.py": "x\n"}, "+++ b/f.py\n@@ -1 +1 @@\n-x\n+y\n", {"f.py": "y\n"}))


def test_tabs_elsewhere_are_not_expanded() -> None:
    check(
        Case(
            "",
            {"Makefile": "a:\n\tb\nc = 1\n"},
            block("c = 1\n", "c = 2\n", "Makefile"),
            {"Makefile": "a:\n\tb\nc = 2\n"},
        )
    )


def test_a_blank_context_line_at_the_end_of_a_hunk_is_kept() -> None:
    hunk = "@@ -1,3 +1,3 @@\n-a\n+A\n b\n \n"
    check(Case("", {"f.py": "a\nb\n\nc\n"}, diff("f.py", hunk), {"f.py": "A\nb\n\nc\n"}))


def test_the_refusal_quotes_the_closest_lines_with_their_numbers() -> None:
    with pytest.raises(PatchError) as caught:
        apply_answer(block("line 11\nline 12 or so\n", "x\n", "f.py"), make_tree({"f.py": TWENTY}))
    assert caught.value.reason is RefusalReason.NO_MATCH
    assert "   11 | line 11\n   12 | line 12" in caught.value.closest
    said = precise_reason(caught.value)
    assert "no_match" in said
    assert "f.py" in said
    assert "   12 | line 12" in said


def test_the_refusal_of_twins_shows_the_places() -> None:
    with pytest.raises(PatchError) as caught:
        apply_answer(block("a\n", "x\n", "f.py"), make_tree({"f.py": "a\nb\na\n"}))
    assert "    1 | a" in caught.value.closest
    assert "    3 | a" in caught.value.closest


def test_a_long_file_and_a_long_answer_stay_quick() -> None:
    """A hundred thousand equal lines, and a block that almost fits everywhere."""
    text = "x = 1\n" * 100_000
    with pytest.raises(PatchError) as caught:
        apply_answer(block("x = 1\n" * 300 + "y\n", "z\n", "f.py"), make_tree({"f.py": text}))
    assert caught.value.reason is RefusalReason.NO_MATCH


@pytest.mark.parametrize(
    "code", ["(" * 5000, "def f():\n" + " " * 3 + "x = " + "-" * 20000 + "1\n", "\0def f(): pass\n"]
)
def test_code_that_breaks_the_parser_is_refused(code: str) -> None:
    with pytest.raises(PatchError):
        apply_answer(
            f"```python\ndef f():\n    return {code}\n```\n",
            make_tree({"f.py": "def f():\n    return 1\n"}),
            target="f.py",
        )
