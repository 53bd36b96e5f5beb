from __future__ import annotations

import time

from agentforge.core.task import Issue
from agentforge.memory.evidence import Frame, read_issue

ISSUE = """QuerySet.defer() loses `select_related`

See django/db/models/query.py and `foo/bar.py`. I call `aggregate()` like this:

```python
from django.db.models import Sum, F
qs.annotate_all(total=Sum("x"))
```

Traceback (most recent call last):
  File "/site-packages/django/db/models/query.py", line 12, in get
    raise
  File "C:\\proj\\django\\db\\utils.py", line 99, in inner
    x()
FieldError: Cannot resolve keyword 'abc' into field here.

tests/test_x.py:17: AssertionError
"""


def test_paths_frames_and_names_are_read() -> None:
    evidence = read_issue(Issue(text=ISSUE))
    assert evidence.title == "QuerySet.defer() loses `select_related`"
    assert evidence.paths[:2] == ("django/db/models/query.py", "foo/bar.py")
    assert evidence.frames == (
        Frame("tests/test_x.py", 17),
        Frame("C:/proj/django/db/utils.py", 99, "inner"),
        Frame("/site-packages/django/db/models/query.py", 12, "get"),
    )
    assert {"django.db.models.Sum", "django.db.models.F", "QuerySet.defer"} <= set(evidence.dotted)


def test_names_weigh_by_how_they_are_mentioned() -> None:
    names = read_issue(ISSUE).names
    assert names["select_related"] == 1.0
    assert names["aggregate"] == 1.0
    assert names["annotate_all"] == 0.5
    assert "loses" not in names
    assert "self" not in names


def test_constant_parts_of_messages_are_fragments() -> None:
    assert "Cannot resolve keyword" in read_issue(ISSUE).fragments


def test_a_title_of_its_own_is_part_of_the_text() -> None:
    evidence = read_issue(Issue(title="Broken parse_url", text="It fails."))
    assert evidence.text == "Broken parse_url\nIt fails."
    assert evidence.names == {"parse_url": 1.0}


def test_hostile_issues_are_read_in_bounded_time() -> None:
    started = time.monotonic()
    for text in (
        "a." * 200_000,
        "/" * 200_000,
        "`" * 200_000,
        "```\n" * 50_000,
        '"' * 200_000,
        "<!--" * 50_000,
        "a/" * 100_000 + "b",
    ):
        read_issue(text)
    for text in (
        "A" * 300_000,
        "from a import " + "b," * 100_000,
        "x" * 199_000 + ".py",
        "é" * 200_000,
        " \n" * 99_999,
    ):
        read_issue(text)
    assert time.monotonic() - started < 20


def test_what_a_template_hides_is_not_part_of_the_issue() -> None:
    evidence = read_issue("Legend lost\n<!-- Please use `our_template` and\n see a.py -->\nIt is `gone_now`.")
    assert evidence.names == {"gone_now": 1.0}
    assert evidence.paths == ()


def test_an_empty_issue_has_no_evidence() -> None:
    evidence = read_issue("")
    assert (evidence.title, evidence.paths, evidence.names) == ("", (), {})
