"""The stand-in wheels of tests/install."""

from tests.install.conftest import builder, shop

__all__ = ["builder", "shop"]
