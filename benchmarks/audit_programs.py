"""Programs whose responsibilities are known, for `audit_localization.py`. Each function is a leaf of its own.

A leaf: (function, goal, complexity, what it needs, its own checks). `orchestrates` belongs to the root;
`nobody` is owned by no responsibility, so that a fault in it has no right answer but abstention.
"""

from __future__ import annotations

from typing import NamedTuple


class Leaf(NamedTuple):
    name: str
    goal: str
    budget: str
    needs: tuple[str, ...]
    checks: tuple[str, ...]


class Program(NamedTuple):
    name: str
    source: str
    tests: str
    orchestrates: str
    nobody: str
    leaves: tuple[Leaf, ...]


TOPOLOGICAL = Program(
    "topological",
    """def parse_edges(text):
    edges = []
    for line in text.splitlines():
        if line.strip():
            before, after = line.split()
            edges.append((before, after))
    return edges


def in_degrees(edges):
    degrees = {}
    for before, after in edges:
        degrees.setdefault(before, 0)
        degrees[after] = degrees.get(after, 0) + 1
    return degrees


def successors(edges):
    following = {}
    for before, after in edges:
        following.setdefault(before, []).append(after)
    return following


def peel(degrees, following):
    left = dict(degrees)
    ready = sorted(name for name in left if left[name] == 0)
    order = []
    while ready:
        name = ready.pop(0)
        order.append(name)
        for after in following.get(name, []):
            left[after] -= 1
            if left[after] == 0:
                ready.append(after)
        ready.sort()
    return order


def joined(order):
    return " ".join(order)


def solve(text):
    edges = parse_edges(text)
    degrees = in_degrees(edges)
    order = peel(degrees, successors(edges))
    if len(order) != len(degrees):
        return "cycle"
    return joined(order)
""",
    """import pytest
from topological import in_degrees, parse_edges, solve


@pytest.mark.parametrize(("text", "wanted"), [
    ("a b\\nb c", "a b c"), ("a b\\na c\\nb d\\nc d", "a b c d"), ("a b\\nb a", "cycle"), ("", ""),
    ("x y\\n\\ny z\\nx z", "x y z"), ("d a\\nc a", "c d a"), ("a b\\nb c\\nc b", "cycle"),
])
def test_solve(text, wanted):
    assert solve(text) == wanted


def test_edges():
    assert parse_edges("a b\\n") == [("a", "b")]


def test_degrees():
    assert in_degrees([("a", "b"), ("c", "b")])["b"] == 2
""",
    "solve",
    "joined",
    (
        Leaf(
            "parse_edges",
            "one edge a line",
            "O(n)",
            (),
            ("parse_edges('a b\\n\\nb c') == [('a', 'b'), ('b', 'c')]",),
        ),
        Leaf(
            "in_degrees",
            "how many edges end in a vertex",
            "O(n)",
            ("parse_edges",),
            ("in_degrees([('a', 'b'), ('b', 'c'), ('a', 'c')]) == {'a': 0, 'b': 1, 'c': 2}",),
        ),
        Leaf(
            "successors",
            "where the edges of a vertex lead",
            "O(n)",
            ("parse_edges",),
            ("successors([('a', 'b'), ('a', 'c')]) == {'a': ['b', 'c']}",),
        ),
        Leaf(
            "peel",
            "take vertices without open edges, smallest first",
            "O(n^2)",
            ("in_degrees", "successors"),
            ("peel({'a': 0, 'b': 1}, {'a': ['b']}) == ['a', 'b']", "peel({'a': 1}, {'a': ['a']}) == []"),
        ),
    ),
)

INVOICE = Program(
    "invoice",
    """def parse_line(line):
    name, count, cents = line.split(";")
    return name.strip(), int(count), int(cents)


def subtotal(items):
    total = 0
    for _, count, cents in items:
        total += count * cents
    return total


def discount(total):
    if total >= 10000:
        return total // 10
    if total >= 5000:
        return total // 20
    return 0


def tax(total, percent):
    return (total * percent + 50) // 100


def as_money(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def invoice(text, percent):
    items = [parse_line(line) for line in text.splitlines() if line.strip()]
    net = subtotal(items)
    net -= discount(net)
    return as_money(net + tax(net, percent))
""",
    """import pytest
from invoice import as_money, discount, invoice


@pytest.mark.parametrize(("text", "percent", "wanted"), [
    ("a;1;100", 20, "1.20"), ("a;2;2500", 0, "47.50"), ("a;1;10000", 0, "90.00"),
    ("a;1;99\\nb;3;7", 10, "1.32"),
    ("", 20, "0.00"), (" a ;4;1250", 19, "56.53"), ("a;1;105", 5, "1.10"), ("a;50;200", 1, "90.90"),
])
def test_invoice(text, percent, wanted):
    assert invoice(text, percent) == wanted


def test_discount():
    assert [discount(n) for n in (4999, 5000, 10000)] == [0, 250, 1000]


def test_money():
    assert as_money(1205) == "12.05"
""",
    "invoice",
    "as_money",
    (
        Leaf(
            "parse_line",
            "name, count and price of a line",
            "O(n)",
            (),
            ("parse_line(' x ;2;30') == ('x', 2, 30)",),
        ),
        Leaf(
            "subtotal",
            "the sum over all items",
            "O(n)",
            ("parse_line",),
            ("subtotal([('a', 2, 30), ('b', 1, 5)]) == 65", "subtotal([]) == 0"),
        ),
        Leaf(
            "discount",
            "five and ten percent of large sums",
            "O(1)",
            ("subtotal",),
            ("discount(9999) == 499", "discount(10000) == 1000", "discount(1) == 0"),
        ),
        Leaf(
            "tax",
            "percent, rounded half up",
            "O(1)",
            ("subtotal", "discount"),
            ("tax(150, 1) == 2", "tax(100, 20) == 20"),
        ),
    ),
)

PERMUTATION = Program(
    "permutation",
    """def read_pair(text):
    first, second = text.split()
    return int(first), int(second)


def check_feasibility(n, k):
    return 1 <= k <= n <= k * k or n == k


def block_sizes(n, k):
    base, more = divmod(n, k)
    sizes = []
    for index in range(k):
        sizes.append(base + 1 if index < more else base)
    return sizes


def construct(sizes):
    result = []
    start = 1
    for size in sizes:
        result.extend(range(start + size - 1, start - 1, -1))
        start += size
    return result


def rendered(numbers):
    return " ".join(str(number) for number in numbers)


def solve(text):
    n, k = read_pair(text)
    if not check_feasibility(n, k):
        return "-1"
    return rendered(construct(block_sizes(n, k)))
""",
    """import pytest
from permutation import block_sizes, check_feasibility, solve


@pytest.mark.parametrize(("text", "wanted"), [
    ("1 1", "1"), ("4 2", "2 1 4 3"), ("4 1", "-1"), ("5 6", "-1"), ("5 3", "2 1 4 3 5"),
    ("9 3", "3 2 1 6 5 4 9 8 7"),
    ("3 3", "1 2 3"), ("10 3", "-1"),
])
def test_solve(text, wanted):
    assert solve(text) == wanted


def test_feasible():
    assert check_feasibility(4, 2)
    assert not check_feasibility(5, 2)


def test_blocks():
    assert sum(block_sizes(11, 4)) == 11
""",
    "solve",
    "rendered",
    (
        Leaf("read_pair", "two numbers", "O(1)", (), ("read_pair(' 3  4 ') == (3, 4)",)),
        Leaf(
            "check_feasibility",
            "whether such a permutation exists",
            "O(1)",
            ("read_pair",),
            ("check_feasibility(1, 1)", "not check_feasibility(4, 1)", "not check_feasibility(5, 6)"),
        ),
        Leaf(
            "block_sizes",
            "k blocks, the first ones longer",
            "O(n)",
            ("read_pair",),
            ("block_sizes(5, 3) == [2, 2, 1]", "block_sizes(4, 2) == [2, 2]"),
        ),
        Leaf(
            "construct",
            "each block reversed",
            "O(n)",
            ("block_sizes",),
            ("construct([2, 1]) == [2, 1, 3]", "construct([]) == []"),
        ),
    ),
)

LOG = Program(
    "weblog",
    """def split_fields(line):
    parts = line.split(" ")
    return parts[0], parts[1], int(parts[2])


def is_error(status):
    return 400 <= status < 600


def by_host(records):
    found = {}
    for host, path, status in records:
        found.setdefault(host, []).append((path, status))
    return found


def error_rate(entries):
    errors = 0
    for _, status in entries:
        if is_error(status):
            errors += 1
    return errors / len(entries)


def top(rates, count):
    ranked = sorted(rates.items(), key=lambda item: (-item[1], item[0]))
    return [name for name, _ in ranked[:count]]


def clean(text):
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def worst_hosts(text, count):
    groups = by_host([split_fields(line) for line in clean(text)])
    rates = {}
    for host, entries in groups.items():
        if len(entries) > 1:
            rates[host] = error_rate(entries)
    return top(rates, count)
""",
    '''import pytest
from weblog import error_rate, is_error, top, worst_hosts

TEXT = """# host path status
a /x 200
a /y 404
b /x 500
b /y 503
c /x 200
c /y 200
d /z 500
"""


@pytest.mark.parametrize(("text", "count", "wanted"), [
    (TEXT, 1, ["b"]), (TEXT, 3, ["b", "a", "c"]), (TEXT, 9, ["b", "a", "c"]), ("", 2, []),
    ("z /a 400\\nz /b 399\\ny /a 599\\ny /b 200", 2, ["y", "z"]), ("q /a 500", 1, []),
])
def test_worst(text, count, wanted):
    assert worst_hosts(text, count) == wanted


@pytest.mark.parametrize(("status", "wanted"), [(399, False), (400, True), (599, True), (600, False)])
def test_is_error(status, wanted):
    assert is_error(status) is wanted


def test_rate():
    assert error_rate([("/", 200), ("/", 500)]) == 0.5


def test_top():
    assert top({"b": 0.5, "a": 0.5, "c": 1.0}, 2) == ["c", "a"]
''',
    "worst_hosts",
    "clean",
    (
        Leaf(
            "split_fields",
            "host, path and status",
            "O(1)",
            (),
            ("split_fields('a /x 200') == ('a', '/x', 200)",),
        ),
        Leaf(
            "is_error", "4xx and 5xx", "O(1)", (), ("is_error(404)", "not is_error(200)", "not is_error(600)")
        ),
        Leaf(
            "by_host",
            "entries of each host",
            "O(n)",
            ("split_fields",),
            ("by_host([('a', '/', 1), ('a', '/b', 2)]) == {'a': [('/', 1), ('/b', 2)]}",),
        ),
        Leaf(
            "error_rate",
            "share of errors",
            "O(n)",
            ("is_error",),
            ("error_rate([('/', 404), ('/', 200)]) == 0.5", "error_rate([('/', 200)]) == 0"),
        ),
        Leaf(
            "top",
            "highest rates first, ties by name",
            "O(n log n)",
            ("error_rate",),
            ("top({'x': 0.1, 'y': 0.9}, 1) == ['y']", "top({'b': 1, 'a': 1}, 2) == ['a', 'b']"),
        ),
    ),
)

SPANS = Program(
    "spans",
    """def parse_spans(text):
    spans = []
    for part in text.split(","):
        if part:
            start, end = part.split("-")
            spans.append((int(start), int(end)))
    return spans


def merged(spans):
    result = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], end))
        else:
            result.append((start, end))
    return result


def covers(spans, value):
    low, high = 0, len(spans)
    while low < high:
        middle = (low + high) // 2
        if spans[middle][1] < value:
            low = middle + 1
        else:
            high = middle
    return low < len(spans) and spans[low][0] <= value


def size(spans):
    return sum(end - start + 1 for start, end in spans)


def gaps(spans):
    found = []
    for (_, end), (start, _) in zip(spans, spans[1:]):
        found.append((end + 1, start - 1))
    return found


def shown(spans):
    return ",".join(f"{start}-{end}" for start, end in spans)


def report(text, value):
    spans = merged(parse_spans(text))
    return {"spans": shown(spans), "size": size(spans), "gaps": gaps(spans), "covers": covers(spans, value)}
""",
    """import pytest
from spans import covers, gaps, merged, report


@pytest.mark.parametrize(("text", "value", "wanted"), [
    ("1-3,5-9", 4, {"spans": "1-3,5-9", "size": 8, "gaps": [(4, 4)], "covers": False}),
    ("5-9,1-4", 9, {"spans": "1-9", "size": 9, "gaps": [], "covers": True}),
    ("", 1, {"spans": "", "size": 0, "gaps": [], "covers": False}),
    ("1-10,2-3", 3, {"spans": "1-10", "size": 10, "gaps": [], "covers": True}),
    ("1-1,4-6,9-9", 1, {"spans": "1-1,4-6,9-9", "size": 5, "gaps": [(2, 3), (7, 8)], "covers": True}),
])
def test_report(text, value, wanted):
    assert report(text, value) == wanted


def test_merged():
    assert merged([(4, 5), (1, 2)]) == [(1, 2), (4, 5)]


@pytest.mark.parametrize(("value", "wanted"), [(0, False), (1, True), (3, False), (9, True), (10, False)])
def test_covers(value, wanted):
    assert covers([(1, 2), (4, 5), (8, 9)], value) is wanted


def test_gaps():
    assert gaps([(1, 2), (9, 9)]) == [(3, 8)]
""",
    "report",
    "shown",
    (
        Leaf("parse_spans", "pairs of numbers", "O(n)", (), ("parse_spans('1-3,,7-8') == [(1, 3), (7, 8)]",)),
        Leaf(
            "merged",
            "sorted, touching ones joined",
            "O(n log n)",
            ("parse_spans",),
            ("merged([(1, 5), (2, 3)]) == [(1, 5)]", "merged([(1, 2), (3, 4)]) == [(1, 4)]"),
        ),
        Leaf(
            "covers",
            "whether a value lies in a span",
            "O(log n)",
            ("merged",),
            ("covers([(1, 2), (4, 5)], 5)", "not covers([(1, 2), (4, 5)], 3)", "not covers([], 1)"),
        ),
        Leaf("size", "how many values", "O(n)", ("merged",), ("size([(1, 3), (5, 5)]) == 4",)),
        Leaf("gaps", "what lies between", "O(n)", ("merged",), ("gaps([(1, 2), (5, 6)]) == [(3, 4)]",)),
    ),
)

PROGRAMS = (TOPOLOGICAL, INVOICE, PERMUTATION, LOG, SPANS)
