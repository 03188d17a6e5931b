//! Which environment a server gets.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The exact environment of a server: nothing is added but the mark by which we find its helpers again.
pub type Environment = BTreeMap<OsString, OsString>;

/// Variables that servers get of our environment, and what they are for.
#[derive(Debug)]
pub struct VariableGroup {
    /// What they are for, for people.
    pub purpose: &'static str,
    /// Their names. A `*` at the end stands for any ending.
    pub names: &'static [&'static str],
}

/// What a program needs to find its way, its network and its packages. No variable here is for a secret alone, but the address of a
/// proxy or a registry may have a password in it.
pub const ALLOWED: &[VariableGroup] = &[
    VariableGroup {
        purpose: "user, programs and folders",
        // Without the last, some programs on macOS ask the directory service at each start.
        names: &["HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "XDG_*", "__CF_USER_TEXT_ENCODING"],
    },
    VariableGroup { purpose: "language and time", names: &["LANG", "LANGUAGE", "LC_*", "TZ"] },
    VariableGroup { purpose: "temporary files", names: &["TEMP", "TMP", "TMPDIR"] },
    VariableGroup {
        purpose: "proxies",
        names: &[
            "ALL_PROXY",
            "HTTPS_PROXY",
            "HTTP_PROXY",
            "NO_PROXY",
            "NODE_USE_ENV_PROXY",
            "all_proxy",
            "http_proxy",
            "https_proxy",
            "no_proxy",
        ],
    },
    VariableGroup {
        purpose: "certificates",
        names: &[
            "AWS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "DENO_CERT",
            "DENO_TLS_CA_STORE",
            "GIT_SSL_CAINFO",
            "GIT_SSL_CAPATH",
            "NODE_EXTRA_CA_CERTS",
            "NODE_USE_SYSTEM_CA",
            "REQUESTS_CA_BUNDLE",
            "SSL_CERT_DIR",
            "SSL_CERT_FILE",
        ],
    },
    VariableGroup {
        purpose: "npm",
        names: &[
            "NPM_CONFIG_CAFILE",
            "NPM_CONFIG_CACHE",
            "NPM_CONFIG_GLOBALCONFIG",
            "NPM_CONFIG_REGISTRY",
            "NPM_CONFIG_USERCONFIG",
            "npm_config_cafile",
            "npm_config_cache",
            "npm_config_globalconfig",
            "npm_config_registry",
            "npm_config_userconfig",
        ],
    },
    VariableGroup {
        purpose: "pip and uv",
        names: &[
            "PIP_CERT",
            "PIP_CONFIG_FILE",
            "PIP_EXTRA_INDEX_URL",
            "PIP_INDEX_URL",
            "PIP_TRUSTED_HOST",
            "UV_CACHE_DIR",
            "UV_CONFIG_FILE",
            "UV_DEFAULT_INDEX",
            "UV_EXTRA_INDEX_URL",
            "UV_INDEX",
            "UV_INDEX_URL",
            "UV_INSECURE_HOST",
            "UV_NATIVE_TLS",
            "UV_SYSTEM_CERTS",
        ],
    },
    VariableGroup {
        purpose: "clusters, containers and keys that an agent holds",
        names: &[
            "DOCKER_CERT_PATH",
            "DOCKER_CONFIG",
            "DOCKER_CONTEXT",
            "DOCKER_HOST",
            "DOCKER_TLS_VERIFY",
            "KUBECONFIG",
            "SSH_AUTH_SOCK",
        ],
    },
];

/// Our own environment, as our host chose it.
pub fn inherited() -> Environment {
    std::env::vars_os().collect()
}

/// The part of our own environment that is [`ALLOWED`].
pub fn clean() -> Environment {
    std::env::vars_os().filter(|(name, _)| is_allowed(name)).collect()
}

/// Whether a variable of this name is [`ALLOWED`].
pub fn is_allowed(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    ALLOWED.iter().flat_map(|group| group.names).any(|allowed| match allowed.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == allowed.as_bytes(),
    })
}

/// Where a program with this environment is looked up; without a `PATH` where the C library does.
pub(super) fn search_path(environment: &Environment) -> &OsStr {
    let default = if cfg!(target_env = "musl") { "/usr/local/bin:/bin:/usr/bin" } else { "/bin:/usr/bin" };
    environment.get(OsStr::new("PATH")).map_or(OsStr::new(default), OsString::as_os_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clean_environment_keeps_the_way_and_leaves_the_secrets() {
        for name in [
            "PATH",
            "HOME",
            "LC_ALL",
            "XDG_RUNTIME_DIR",
            "https_proxy",
            "NO_PROXY",
            "SSL_CERT_FILE",
            "KUBECONFIG",
        ] {
            assert!(is_allowed(OsStr::new(name)), "{name}");
        }
        for name in [
            "GITHUB_TOKEN",
            "PATHS",
            "AWS_SECRET_ACCESS_KEY",
            "LD_PRELOAD",
            "UV_INDEX_OURS_PASSWORD",
            "npm_config__auth",
            "NODE_OPTIONS",
            "",
        ] {
            assert!(!is_allowed(OsStr::new(name)), "{name}");
        }
    }
}
