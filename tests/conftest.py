from __future__ import annotations

import importlib
from types import ModuleType

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--package", default="chatfmt", help="the package to test: chatfmt, or a copy under another name")


@pytest.fixture(scope="session")
def package(request: pytest.FixtureRequest) -> ModuleType:
    name = request.config.getoption("--package")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        pytest.exit(
            f"--package {name} cannot be imported ({error}): is the folder above it in PYTHONPATH?", returncode=4
        )
