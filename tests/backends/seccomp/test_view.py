"""What of the host is shown."""

from __future__ import annotations

import pytest

from isandbox_backends.seccomp.view import jvm_settings


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["java-17-openjdk", "java-8-openjdk", "passwd"], ["java-17-openjdk", "java-8-openjdk"]),
        (["java-openjdk", "java-17-openjdk-secrets", "java-17", "myjava-17-openjdk", "java-17-openjdk\n", ".java"], []),
        ([], []),
    ],
)
def test_the_settings_of_a_jvm_and_nothing_like_them(names: list[str], wanted: list[str]) -> None:
    """Of /etc only directories of a JVM's settings are added to the view, by their whole name."""
    assert jvm_settings(names) == wanted
