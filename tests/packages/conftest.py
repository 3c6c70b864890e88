"""The stand-in wheels of tests/install, and indexes that have wheels of IPEX."""

from tests.install.conftest import builder, shop
from tests.packages.test_resolve_ipex import world

__all__ = ["builder", "shop", "world"]
