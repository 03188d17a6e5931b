//! The configurations of hosts on this machine, and of each server what it starts or reaches.

use std::path::{Path, PathBuf};

use regrow_auth::settings::Settings;
use regrow_gateway::adopt::{self, Outcome};
use regrow_gateway::config::{
    Config, FoundFile, Inherit, Process, Reach, Secret, ServerConfig, Surroundings, files_with_servers,
};
use regrow_gateway::environment_of;
use regrow_gateway::hosts::Host;
use regrow_gateway::operate::DEFAULT_PORT;
use regrow_protocol::text::escape;
use reqwest::Url;

use super::super::facts::{ConfigFile, Program, Remote, Server};
use super::super::target::{self, Behind, Target};
use super::own_files::shown;
use super::programs::{self, Paths};
use crate::account::stored::{AccountState, StoredAccount};
use crate::account::{self, has_user, sign_in_conflict};
use crate::adopt::program::is_in_cache;
use crate::arguments::sign_in::login_options;
use crate::folder_config::{FolderConfig, quoted};
use crate::running;

/// What entries are read in the light of.
struct Scene<'a> {
    surroundings: &'a Surroundings,
    paths: &'a Paths,
    /// The network variables that are set.
    network: &'a [&'a str],
    /// The ports of gateways of this user.
    gateways: Vec<u16>,
}

/// Each file, and of each of its servers what to try, if it is to be tried.
pub(super) fn find(
    surroundings: &Surroundings,
    paths: &Paths,
    network: &[&str],
) -> Vec<(ConfigFile, Vec<Option<ServerConfig>>)> {
    let running = running::look();
    let ports = running.iter().filter_map(|gateway| Url::parse(&gateway.url).ok()?.port_or_known_default());
    let gateways = ports.chain([DEFAULT_PORT]).collect();
    let scene = Scene { surroundings, paths, network, gateways };
    files_with_servers(surroundings).iter().map(|file| read(file, &scene)).collect()
}

fn read(found: &FoundFile, scene: &Scene<'_>) -> (ConfigFile, Vec<Option<ServerConfig>>) {
    let FoundFile { path, host, is_of_folder } = found;
    let mut file = ConfigFile {
        shown: shown(path),
        quoted: quoted(path),
        host: *host,
        is_trusted: true,
        problems: vec![],
        servers: vec![],
        bypassing: vec![],
    };
    let config = match Config::read(&[path], scene.surroundings) {
        Ok(config) => config,
        Err(problems) => {
            file.problems = problems.0;
            return (file, vec![]);
        }
    };
    file.is_trusted = !is_of_folder || FolderConfig::of(path, &config).is_trusted();
    let mut tried = vec![];
    let mut behind_regrow = config.disabled.clone();
    for server in &config.servers {
        let target = target::of(&as_started(server, *host), scene.surroundings);
        let (described, try_it) = describe(server, target, *host, scene);
        if described.is_behind_regrow {
            behind_regrow.push(server.name.clone());
        }
        tried.push(Some(try_it).filter(|_| file.is_trusted && is_tried(&described)));
        file.servers.push(described);
    }
    if host.is_some() {
        file.bypassing = bypassing(path, &behind_regrow);
    }
    (file, tried)
}

/// The entry with the environment that its host passes on: one that is started from a shell, all that it has.
fn as_started(server: &ServerConfig, host: Option<&'static Host>) -> ServerConfig {
    let mut server = server.clone();
    if let (Reach::Process(process), Some(host)) = (&mut server.reach, host)
        && !passes_little(host)
    {
        process.inherit = Inherit::All;
    }
    server
}

/// Not where it is known already that it does not work, nor where only Regrow would be tried.
fn is_tried(server: &Server) -> bool {
    server.problems.is_empty()
        && server.wrap_problem.is_none()
        && !server.is_regrow
        && server.programs.iter().all(|program| program.found.is_some())
}

/// The servers of the file that `regrow adopt` would change, but for these.
fn bypassing(path: &Path, behind_regrow: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default(); // It was read just now.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let steps = adopt::adopt(path, text, "regrow", &[]).map(|plan| plan.steps).unwrap_or_default();
    let names =
        steps.into_iter().filter(|step| matches!(step.outcome, Outcome::Changed | Outcome::ChangedWith(_)));
    let names = names.map(|step| step.server).filter(|name| !behind_regrow.contains(name));
    names.map(|name| escape(&name)).collect()
}

fn describe(
    server: &ServerConfig,
    target: Target,
    host: Option<&'static Host>,
    scene: &Scene<'_>,
) -> (Server, ServerConfig) {
    let started = match &server.reach {
        Reach::Process(process) => Some(process),
        _ => None,
    };
    let inner = match (&target.behind, &target.server.reach) {
        (Behind::Wrap, Reach::Process(process)) => Some(process),
        _ => None,
    };
    let programs = started.into_iter().chain(inner).map(|process| program(process, scene)).collect();
    let Target { behind, server: mut reached, sign_in } = target;
    let is_gateway = is_gateway(server, &scene.gateways);
    // A host signs in to each on its own.
    let other = server.account_is_of.as_deref().filter(|_| host.is_none());
    let remote = remote(&mut reached, sign_in, other.map(sign_in_conflict));
    let described = Server {
        name: escape(&server.name),
        place: server.place.clone(),
        problems: server.problems().map(|problems| problems.0.clone()).unwrap_or_default(),
        // The file for Regrow alone is read by `regrow serve`.
        is_behind_regrow: behind != Behind::Nothing || is_gateway || host.is_none(),
        is_regrow: behind == Behind::Regrow,
        is_gateway,
        wrap_problem: match behind {
            Behind::Failing(problem) => Some(problem),
            _ => None,
        },
        programs,
        lacks: started.map(|process| lacks(process, server, host, scene)).unwrap_or_default(),
        remote,
        visit: None,
    };
    (described, reached)
}

/// Whether the host reaches a gateway of this user by this entry.
fn is_gateway(server: &ServerConfig, ports: &[u16]) -> bool {
    let Reach::Remote(remote) = &server.reach else { return false };
    let Ok(url) = Url::parse(remote.url.reveal()) else { return false };
    let is_here = matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"));
    is_here && url.port_or_known_default().is_some_and(|port| ports.contains(&port))
}

fn program(process: &Process, scene: &Scene<'_>) -> Program {
    let name = &process.program;
    let directory = process.directory.as_deref().unwrap_or(&scene.surroundings.directory);
    let own: Option<Vec<PathBuf>> =
        process.variables.get("PATH").map(|path| programs::folders(path.reveal()));
    let in_folders = |folders: &[PathBuf]| programs::find(name, own.as_deref().unwrap_or(folders), directory);
    let found = in_folders(&scene.paths.shell);
    Program {
        name: escape(name),
        is_found_by_desktop: in_folders(&scene.paths.desktop).is_some(),
        is_regrow: target::is_regrow(name),
        is_in_cache: found.as_deref().is_some_and(is_in_cache),
        found: found.map(|path| shown(&path)),
    }
}

/// The network variables that a server may not get.
fn lacks(
    process: &Process,
    server: &ServerConfig,
    host: Option<&'static Host>,
    scene: &Scene<'_>,
) -> Vec<String> {
    let is_lacking = |name: &str| match host {
        None => !environment_of(process, &server.options).contains_key(std::ffi::OsStr::new(name)),
        Some(host) => {
            passes_little(host) && !process.variables.contains_key(name) && process.inherit != Inherit::All
        }
    };
    scene.network.iter().filter(|name| is_lacking(name)).map(|name| (*name).to_owned()).collect()
}

/// Apps that are started from the desktop do not have the variables of the shell, and some hosts pass only what an entry names.
fn passes_little(host: &Host) -> bool {
    host.is_desktop || host.members.passed_variables.is_some()
}

/// What is known of a remote server. One with a valid token is tried with it, and nothing is refreshed or stored.
fn remote(server: &mut ServerConfig, sign_in: Option<Settings>, conflict: Option<String>) -> Option<Remote> {
    let (url, configured) = account::configured(server)?;
    let has_credential = has_user(&url) || server.has_credential();
    let settings = sign_in.unwrap_or(configured);
    let key = settings.key(url);
    let Reach::Remote(remote) = &mut server.reach else { return None };
    let address = account::shown(&key);
    let address = if address == key.url.as_str() { address } else { "URL".to_owned() };
    let options = login_options(&settings).into_iter().map(|word| quoted(Path::new(&word)));
    let login = [address].into_iter().chain(options).collect::<Vec<_>>().join(" ");
    // An account that cannot be read is reported as such.
    let stored = account::stored(&key).filter(|_| !has_credential && conflict.is_none());
    let account = stored.as_ref().map(StoredAccount::of);
    if let (Some(tokens), Some(AccountState::SignedIn)) =
        (stored.and_then(|stored| stored.tokens), account.as_ref().map(|account| account.state))
    {
        let value = format!("Bearer {}", tokens.access_token.expose());
        remote.headers.push(("Authorization".into(), Secret::new(value)));
    }
    Some(Remote { login, has_credential, account, conflict })
}
