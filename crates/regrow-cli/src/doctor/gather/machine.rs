//! What concerns no server in particular: Regrow itself, its folders, the network settings, its port.

use std::ffi::OsString;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use clap::Parser;
use regrow::transport::stdio::environment::ALLOWED;
use regrow_gateway::config::Surroundings;
use reqwest::Url;

use super::super::facts::{DamagedFile, Executable, Listen, ListenState, Machine, NetworkVariable};
use super::own_files::{self, shown};
use super::programs::{Paths, is_executable, output_of};
use crate::adopt::program::{is_in_cache, is_same};
use crate::arguments::{Arguments, Command};
use crate::running;

/// More of a file of certificates is not read.
const MAX_CERTIFICATES: u64 = 16 << 20;
/// Variables for proxies and certificates beyond those that every server gets.
const MORE_NETWORK: [&str; 9] = [
    "CARGO_HTTP_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "NPM_CONFIG_CAFILE",
    "NPM_CONFIG_HTTPS_PROXY",
    "NPM_CONFIG_PROXY",
    "PIP_CERT",
    "PIP_PROXY",
    "UV_HTTP_PROXY",
];
/// Those that name a file of certificates, or with some programs a folder of them.
const CERTIFICATE_FILES: [&str; 12] = [
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "GIT_SSL_CAINFO",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_CAFILE",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_FILE",
];

pub(super) fn look(surroundings: &Surroundings, paths: &Paths, mut damaged: Vec<DamagedFile>) -> Machine {
    damaged.extend(own_files::damaged());
    let ours = std::env::current_exe().unwrap_or_default();
    let desktop: Vec<String> = paths.desktop.iter().map(|folder| shown(folder)).collect();
    Machine {
        executable: Executable {
            path: shown(&ours),
            version: Some(version()),
            is_in_cache: is_in_cache(&ours),
            is_this: true,
        },
        has_home: surroundings.home.is_some(),
        installed: installed(&ours, paths),
        folders: own_files::folders(),
        damaged,
        network: network(surroundings),
        listen: listen(surroundings),
        desktop_path: desktop.join(":"),
    }
}

/// As `--version` prints it.
fn version() -> String {
    format!("regrow {}", env!("CARGO_PKG_VERSION"))
}

fn installed(ours: &Path, paths: &Paths) -> Vec<Executable> {
    let mut found: Vec<PathBuf> = vec![];
    for path in paths.shell.iter().map(|folder| folder.join("regrow")) {
        if is_executable(&path) && !found.iter().any(|other| is_same(other, &path)) {
            found.push(path);
        }
    }
    let executable = |path: &PathBuf| {
        let is_this = is_same(path, ours);
        let version = if is_this { Some(version()) } else { output_of(path, &["--version"]) };
        let version = version.and_then(|said| Some(said.lines().next()?.escape_debug().take(60).collect()));
        Executable { path: shown(path), version, is_in_cache: is_in_cache(path), is_this }
    };
    found.iter().map(executable).collect()
}

fn network(surroundings: &Surroundings) -> Vec<NetworkVariable> {
    let groups = ALLOWED.iter().filter(|group| ["proxies", "certificates"].contains(&group.purpose));
    let known: Vec<&str> = groups.flat_map(|group| group.names).copied().chain(MORE_NETWORK).collect();
    let is_known = |name: &str| known.iter().any(|known| known.eq_ignore_ascii_case(name));
    let set = surroundings.variables.iter().filter(|(name, value)| is_known(name) && !value.is_empty());
    set.map(|(name, value)| NetworkVariable { name: name.clone(), problem: problem(name, value) }).collect()
}

/// What is wrong with the value of a network variable. It is not quoted: a proxy's address may have a password in it.
fn problem(name: &str, value: &str) -> Option<String> {
    let name = name.to_ascii_uppercase();
    if CERTIFICATE_FILES.contains(&&*name) {
        return certificates(Path::new(value)).err().map(|error| error.to_string());
    }
    if !name.ends_with("_PROXY") || name == "NO_PROXY" || name == "NODE_USE_ENV_PROXY" {
        return None;
    }
    let whole = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    let is_address = Url::parse(&whole).is_ok_and(|url| url.has_host());
    (!is_address).then(|| "its value is not the address of a proxy".to_owned())
}

fn certificates(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let unreadable = |error: io::Error| {
        io::Error::new(error.kind(), format!("the file {} cannot be read: {error}", shown(path)))
    };
    let mut text = vec![];
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MAX_CERTIFICATES).read_to_end(&mut text).map_err(unreadable)?;
    match String::from_utf8_lossy(&text).contains("-----BEGIN ") {
        true => Ok(()),
        false => Err(io::Error::other(format!("the file {} has no certificate in it (PEM)", shown(path)))),
    }
}

fn listen(surroundings: &Surroundings) -> Listen {
    let is_chosen =
        ["REGROW_HOST", "REGROW_PORT"].iter().any(|name| surroundings.variables.contains_key(*name));
    let words: [OsString; 2] = ["regrow".into(), "serve".into()];
    let state = match Arguments::try_parse_from(words).map(|arguments| arguments.command) {
        Ok(Command::Serve(options)) => state_of(SocketAddr::new(options.http.host, options.http.port)),
        Ok(_) => ListenState::Free, // There is no other command of this name.
        Err(error) => {
            let text = error.to_string();
            ListenState::Unclear(text.lines().next().unwrap_or_default().escape_debug().to_string())
        }
    };
    Listen { state, is_chosen }
}

fn state_of(address: SocketAddr) -> ListenState {
    match TcpListener::bind(address) {
        Ok(_) => ListenState::Free,
        Err(error) => {
            let urls = ["http", "https"].map(|scheme| running::url(scheme, address));
            match running::look().iter().any(|gateway| urls.contains(&gateway.url)) {
                true => ListenState::Ours,
                false => ListenState::Taken(address, error.to_string()),
            }
        }
    }
}
