"""Settings: defaults that a user, a project or the environment gives to `create_sandbox` and the command line.

``variables`` is the one module that reads isandbox's environment variables. The rest is loaded only where there is something
to read: `table` says what there is, `files` reads ``isandbox.toml``, `merge` decides which word counts.
"""

from isandbox._settings.variables import (
    Settings,
    StateVariables,
    UnsetNumber,
    UnsetText,
    default_type,
    environment,
    native_type,
    read_settings,
    read_state_variables,
    trusted_files,
)

__all__ = [
    "Settings",
    "StateVariables",
    "UnsetNumber",
    "UnsetText",
    "default_type",
    "environment",
    "native_type",
    "read_settings",
    "read_state_variables",
    "trusted_files",
]
