"""What a mounted directory does not show: credentials, and sockets of agents and services. Data, and the pure functions on it.

A name is here because the manual of its program says that it keeps secrets or takes orders there, or because the checks that
attackers run look for it (deepce, amicontained, BOtB). Programs replace single files by renaming, which ends a cover on the
old one; so where a directory holds nothing else, the directory is named.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from os.path import normpath

# Below a home directory.
_KEYS = (".ssh", ".gnupg", ".pki", ".password-store", ".local/share/keyrings", ".local/share/kwalletd",
         ".config/op", ".config/Bitwarden", ".config/keepassxc", ".config/sops", ".config/age",
         ".vault-token", ".Xauthority", ".ICEauthority", ".authinfo", ".authinfo.gpg", ".smbcredentials", ".passwd-s3fs", ".davfs2",
         ".msmtprc", ".fetchmailrc", ".bitcoin", ".ethereum", ".electrum", ".config/solana")  # fmt: skip
_CLOUD = (".aws", ".azure", ".config/gcloud", ".config/doctl", ".config/hcloud", ".config/scw", ".config/linode-cli", ".oci",
          ".bluemix", ".aliyun", ".kube", ".docker", ".config/containers", ".config/helm", ".terraform.d", ".terraformrc", ".s3cfg",
          ".boto", ".config/rclone", ".fly", ".config/netlify", ".config/.wrangler", ".cloudflared", ".ngrok2", ".config/ngrok",
          ".databrickscfg", ".snowsql", ".config/stripe", ".config/heroku", ".local/share/com.vercel.cli", ".pulumi", ".minikube")  # fmt: skip
_CODE = (".netrc", "_netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli",
         ".pypirc", ".config/pypoetry/auth.toml", ".npmrc", ".yarnrc.yml", ".config/configstore", ".cargo/credentials",
         ".cargo/credentials.toml", ".gem/credentials", ".m2/settings.xml", ".m2/settings-security.xml", ".composer/auth.json",
         ".config/composer/auth.json", ".nuget/NuGet", ".config/NuGet", ".condarc", ".kaggle", ".cache/huggingface/token",
         ".huggingface", ".claude", ".claude.json", ".codex", ".gemini", ".config/github-copilot", ".config/openai", ".subversion", ".jupyter",
         ".local/share/jupyter/runtime")  # fmt: skip
_DATABASES = (".pgpass", ".my.cnf", ".mylogin.cnf", ".dbshell", ".redisclirc")
_HISTORIES = (".bash_history", ".zsh_history", ".zhistory", ".sh_history", ".ash_history", ".history", ".local/share/fish",
              ".python_history", ".node_repl_history", ".irb_history", ".psql_history", ".mysql_history", ".sqlite_history",
              ".rediscli_history", ".mongosh", ".lesshst", ".viminfo", ".config/nushell")  # fmt: skip
_BROWSERS = (".mozilla", ".thunderbird", ".config/mozilla", ".config/google-chrome", ".config/google-chrome-beta", ".config/chromium",
             ".config/BraveSoftware", ".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".cache/mozilla", ".librewolf",
             "snap/firefox", "snap/chromium", ".var/app")  # fmt: skip
_OWN = (".local/state/isandbox", ".config/isandbox", ".local/share/isandbox", ".cache/isandbox")
_SESSION = (".config/filezilla", ".config/remmina", ".local/share/remmina", ".screen", ".colima", ".lima", ".rd",
            ".local/share/containers", ".dbus")  # fmt: skip
HOME = tuple(sorted({*_KEYS, *_CLOUD, *_CODE, *_DATABASES, *_HISTORIES, *_BROWSERS, *_OWN, *_SESSION}))

# Of the machine. /var/run is a link to /run; where it is none, both are meant.
_RUN = ("docker.sock", "docker", "containerd", "podman", "crio", "cri-dockerd.sock", "buildkit", "k3s", "k0s", "snapd.socket",
        "snapd-snap.socket", "dbus", "systemd/private", "systemd/notify", "systemd/userdb", "systemd/journal", "systemd/io.systemd.ManagedOOM", "systemd/io.systemd.sysext", "systemd/ask-password", "user", "screen", "screens", "tmux",
        "WSL", "secrets", "credentials", "lxd", "incus", "libvirt", "gdm", "gdm3", "lightdm", "sddm", "cloud-init", "cryptsetup",
        "initctl", "acpid.socket", "pcscd", "avahi-daemon", "udev/control", "nscd", "sssd", "postgresql", "mysqld", "redis",
        "php", "supervisor.sock", "vmware", "qemu-server", "wpa_supplicant", "isandbox")  # fmt: skip
_ETC = ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "pki/tls/private", "letsencrypt",
        "kubernetes", "rancher", "wireguard", "openvpn", "ipsec.secrets", "ipsec.d/private", "krb5.keytab", "docker",
        "NetworkManager/system-connections", "wpa_supplicant", "security/opasswd", "credstore", "credstore.encrypted",
        "mysql/debian.cnf", "isandbox")  # fmt: skip
_VAR = ("lib/docker", "lib/containerd", "lib/containers", "lib/kubelet", "lib/rancher", "lib/lxd", "lib/incus", "lib/cloud",
        "lib/sss/secrets", "lib/NetworkManager", "lib/isandbox", "lib/systemd/credential.secret", "snap/lxd/common/lxd", "spool/cron", "backups")  # fmt: skip
MACHINE = (
    *(f"/{run}/{name}" for run in ("run", "var/run") for name in _RUN),
    *(f"/etc/{name}" for name in _ETC),
    *(f"/var/{name}" for name in _VAR),
    "/mnt/wslg",
)

# Beginnings of names in a temporary directory: X, terminals, agents, Kerberos, other sandboxes.
TEMPORARY = (".X11-unix", ".ICE-unix", ".XIM-unix", ".font-unix", ".Test-unix", "tmux-", "screens", "uscreens", "ssh-", "gpg-",
             "dbus-", "pulse-", "krb5cc", "systemd-private-", "snap-private-tmp", "runtime-", "vscode-ipc-", "vscode-git-",
             "wayland-", ".dotnet", "clr-debug-pipe", ".s.PGSQL", "mysql.sock", "isandbox-")  # fmt: skip

# Variables whose value is, or holds, the path of a secret or a socket.
NAMED = ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "GNUPGHOME", "GPG_AGENT_INFO",
         "DOCKER_HOST", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "CONTAINER_HOST", "CONTAINERD_ADDRESS", "BUILDKIT_HOST", "KUBECONFIG",
         "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
         "CLOUDSDK_CONFIG", "AZURE_CONFIG_DIR", "AZURE_FEDERATED_TOKEN_FILE", "NETRC", "PGPASSFILE", "MYSQL_HISTFILE",
         "NPM_CONFIG_USERCONFIG", "PYPIRC", "REGISTRY_AUTH_FILE", "PASSWORD_STORE_DIR", "KRB5CCNAME", "KRB5_KTNAME", "HISTFILE",
         "XAUTHORITY", "ICEAUTHORITY", "PULSE_SERVER", "PULSE_RUNTIME_PATH", "PIPEWIRE_RUNTIME_DIR", "WAYLAND_DISPLAY", "TMUX",
         "TMUX_TMPDIR", "SCREENDIR", "VAULT_TOKEN_FILE", "SOPS_AGE_KEY_FILE", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET",
         "VSCODE_IPC_HOOK_CLI", "VSCODE_GIT_IPC_HANDLE", "GH_CONFIG_DIR", "CODEX_HOME", "CLAUDE_CONFIG_DIR",
         "ISANDBOX_CONFIG", "ISANDBOX_STATE_DIR")  # fmt: skip
# Where programs look instead of below these directories of the home.
BASES = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share", "XDG_STATE_HOME": ".local/state", "XDG_CACHE_HOME": ".cache",
         "CARGO_HOME": ".cargo"}  # fmt: skip
VARIABLES = ("HOME", *BASES, *NAMED)


def of_home(home: str) -> list[str]:
    return [f"{home}/{name}" for name in HOME]


def of_environment(variables: Mapping[str, str]) -> list[str]:
    """Absolute paths that the variables name: plain, in a list, or as the address of a socket."""
    found = [path for name in NAMED if name in variables for path in _paths(variables[name])]
    for variable, base in BASES.items():
        if (directory := variables.get(variable, "")).startswith("/"):
            inside = (name.removeprefix(f"{base}/") for name in HOME if name.startswith(f"{base}/"))
            found += [normpath(f"{directory}/{name}") for name in inside]
    return found


def _paths(value: str) -> list[str]:
    """``/a:/b``, ``unix:///a``, ``unix:path=/a,guid=1``, ``FILE:/a``, ``/a,1,0``; a plain path may hold such marks itself.
    What follows two slashes in an address is a host.
    """
    parts = [value, *(part for part in re.split("[:,;=]", value) if not re.match("//[^/]", part))]
    return ["/" + normpath(part).lstrip("/") for part in parts if part.startswith("/")]


def below(path: str, places: Sequence[str]) -> Sequence[str]:
    """Those of ``places``, which are sorted, that lie below the directory ``path``; not the directory itself."""
    # "0" is the character after "/".
    return places[bisect_left(places, f"{path}/") : bisect_left(places, f"{path}0")]


def outermost(paths: Iterable[str]) -> list[str]:
    """Without those that lie below another one of them; sorted."""
    found: list[str] = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return list(dict.fromkeys(found))
