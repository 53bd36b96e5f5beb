from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from agentforge.memory.embed import HashedEmbedder


def cosine(left: str, right: str) -> float:
    one, other = HashedEmbedder().embed([left, right])
    return float(np.dot(one, other))


def test_vectors_have_unit_length_and_the_dimension() -> None:
    embedder = HashedEmbedder()
    for vector in embedder.embed(["def parse_url(text): ...", "", "the a of", "é\ud800"]):
        assert len(vector) == embedder.dimension == 384
        assert np.linalg.norm(vector) == pytest.approx(1.0)


def test_similar_texts_are_nearer_than_others() -> None:
    near = cosine("parse_url drops the port", "the port is lost by parse_url")
    assert near > 0.8
    assert near > cosine("parse_url drops the port", "colour of a histogram legend") + 0.5
    assert cosine("serialization fails", "serializer failing") > cosine("serialization fails", "matrix rank")


def test_vectors_do_not_depend_on_the_process() -> None:
    code = "from agentforge.memory.embed import HashedEmbedder as H; print(H().embed(['parse_url twice'])[0])"
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "77"}
    )
    assert eval(other.stdout) == HashedEmbedder().embed(["parse_url twice"])[0]
