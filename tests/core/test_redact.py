"""Secrets go, code stays."""

from __future__ import annotations

import inspect
import json
import pathlib
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.core.redact import MARK, Redactor

# Put together here, so that no scanner takes this file for a leak.
SECRETS = [
    "sk-" + "proj-" + "Ab12" * 10,
    "sk-" + "abcdefghijkl1234567890ABCDEFGHIJ",
    "sk-" + "ant-api03-" + "x1y2" * 12,
    "ghp_" + "a1B2" * 9,
    "gho_" + "a1B2" * 9,
    "ghs_" + "a1B2" * 9,
    "github_pat_" + "11ABCDEFG0" + "_" + "a1B2" * 10,
    "glpat-" + "a1B2" * 5,
    "AKIA" + "IOSFODNN7" + "EXAMPLE",
    "xoxb-" + "1234567890-abcdefghij",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv",
    "hf_" + "aB1c" * 9,
    "eyJ" + "hbGciOiJIUzI1NiJ9" + "." + "eyJ" + "zdWIiOiIxMjM0NTYifQ" + "." + "s1gn4ture_-abcdef",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "key={}\n", "'{}'", '{{"k": "{}"}}', "x {} y", "({})", "a:{},b"])
def test_known_shapes_go(secret: str, around: str) -> None:
    assert Redactor().text(around.format(secret)) == around.format(MARK)


def test_bearer_keeps_its_word() -> None:
    token = "abc123" * 5
    assert Redactor().text(f"Authorization: Bearer {token}") == f"Authorization: Bearer {MARK}"
    assert Redactor().text(f"authorization: bearer {token}=") == f"authorization: bearer {MARK}"


def test_passwords_in_urls_go_and_the_rest_stays() -> None:
    clean = Redactor().text("git clone https://me:hunter22@host.example/x.git and redis://:pw@h:1/0")
    assert clean == f"git clone https://me:{MARK}@host.example/x.git and redis://:{MARK}@h:1/0"


@pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_go(kind: str) -> None:
    body = "MIIEpAIBAAKCAQEA\nabc/+=\n"
    text = f"a\n-----BEGIN {kind}PRIVATE KEY-----\n{body}-----END {kind}PRIVATE KEY-----\nb"
    clean = Redactor().text(text)
    assert "MIIE" not in clean
    assert clean.startswith("a\n-----BEGIN")
    assert clean.endswith("-----\nb")


def test_a_private_key_that_was_cut_off_goes_too() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + ("Ab1+" * 16 + "\n") * 3 + "... cut ..."
    assert Redactor().text(text) == f"-----BEGIN PRIVATE KEY-----{MARK}\n... cut ..."


@pytest.mark.parametrize(
    "piece",
    [
        "sk-aa-",
        "-----BEGIN PRIVATE KEY-----\n",
        "a.",
        "a+",
        "eyJaaaaaaaaa.",
        "bearer ",
        "://a:",
        "\t",
        "A",
        "ghp_",
        "-",
    ],
)
def test_hostile_text_takes_no_long_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    started = time.perf_counter()
    Redactor(["some-value"]).text("bearer " + text)
    Redactor(["some-value"]).text("-----BEGIN PRIVATE KEY-----" + text)
    assert time.perf_counter() - started < 2


def test_configured_values_go_whatever_their_shape() -> None:
    redactor = Redactor(["correct horse", "battery!"])
    assert redactor.text("x correct horse y battery!battery!") == f"x {MARK} y {MARK}{MARK}"


def test_the_longer_of_two_values_goes_first() -> None:
    assert Redactor(["secret", "secret-longer"]).text("secret-longer") == MARK


@pytest.mark.parametrize("value", ["", "a", "none", "redacted", "[redacted]"])
def test_values_that_would_take_ordinary_text_with_them_are_ignored(value: str) -> None:
    text = "none of this [redacted] is a secret"
    assert Redactor([value]).text(text) == text


def test_bytes_of_any_encoding_stay() -> None:
    data = b"\xff\xfe " + SECRETS[0].encode() + b" \x00\xe9\r\n"
    assert Redactor().bytes(data) == b"\xff\xfe " + MARK.encode() + b" \x00\xe9\r\n"


@pytest.mark.parametrize("module", [json, inspect, pathlib, subprocess])
def test_ordinary_source_is_not_mangled(module: object) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]
    assert Redactor().text(source) == source


@pytest.mark.parametrize(
    "code",
    [
        "task-force-alpha-bravo-charlie-1",
        "risk-assessment-module-number-12",
        "sk-learn-compatible-estimator",
        "bearer of bad news: verylongwordwithoutanydigits",
        "f'https://{user}:{password}@{host}/'",
        "https://user:$TOKEN@host and https://u:%s@host",
        "https://host:8080/@scope/pkg and mailto:a@b.example",
        "AKIAshort ghp_short xoxb- eyJ.eyJ.x",
        "sha = '6dc6de1a2b3c4d5e6f708192a3b4c5d6e7f80910'",
        "http://[::1]:80/x@y",
        "@app.route('/x')  # see http://a.example/b:c\n@dataclass",
    ],
)
def test_what_only_resembles_a_secret_stays(code: str) -> None:
    assert Redactor().text(code) == code


@given(
    st.lists(
        st.one_of(st.text(max_size=12), st.sampled_from([*SECRETS, "https://a:b@", "Bearer ", MARK, "sk-"])),
        max_size=8,
    ),
    st.lists(st.text(min_size=6, max_size=10), max_size=3),
)
def test_redacting_twice_changes_nothing(parts: list[str], values: list[str]) -> None:
    redactor = Redactor(values)
    once = redactor.text("".join(parts))
    assert redactor.text(once) == once
