from __future__ import annotations

import importlib
from types import ModuleType

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--package", default="chatfmt", help="the package to test: chatfmt, or a copy under another name")


@pytest.fixture(scope="session")
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.config.getoption("--package"))
