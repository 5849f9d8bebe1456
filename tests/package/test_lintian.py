"""Debian's own judge of packages. Last, as it works beside the other tests."""

from host import PATIENCE


def test_lintian_finds_no_fault_and_warns_of_nothing(packages):
    said, _ = packages.lintian.communicate(timeout=PATIENCE)
    assert packages.lintian.returncode == 0, said
