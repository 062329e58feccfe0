"""One session with the real embedded model for all tests of the page; the parts are fetched by make test."""

import json

import pytest

from leo_core.checkpoint import ASSETS
from studio.session import Session

EXAMPLES = ASSETS / "examples"


@pytest.fixture(scope="session")
def session() -> Session:
    ready = Session().start()
    ready.wait()
    return ready


@pytest.fixture(scope="session")
def example() -> tuple[str, str]:
    first = json.loads((EXAMPLES / "examples.json").read_text())[0]
    return str(EXAMPLES / first["picture"]), first["question"]


@pytest.fixture(scope="session")
def finished(session, example):
    """The last update of one complete run."""
    return list(session.ask(*example, user="finished"))[-1]
