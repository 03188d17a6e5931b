//! The configuration that users already have: which servers there are, how each is reached, and our options for it.
//!
//! The table of [`hosts`](crate::hosts) says how each host writes its servers. What we do not know in a file is left alone, but
//! for what stands under `"regrow"`.

mod content;
mod discovery;
mod document;
mod entries;
mod env_file;
mod expansion;
mod inputs;
pub(crate) mod members;
mod message;
mod names;
mod options;
mod reach;
mod reading;
mod sandbox;
mod secret;
pub(crate) mod sections;
mod sign_in;
mod strays;
mod surroundings;
pub(crate) mod syntax;
mod tools;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use discovery::{Discovery, FoundFile, discover, files_of_user, files_with_servers};
pub use message::{Message, Place, Problems};
pub use names::nearest;
pub use options::{Described, Kind, OPTIONS, Options, Sessions, Start};
pub use reach::{Dialect, Inherit, Process, Reach, Remote};
pub use secret::Secret;
pub use sign_in::SignIn;
pub use surroundings::Surroundings;

use content::Content;
use document::Document;
use message::printable;
use reading::Reading;
use regrow::transport::stdio::Sandbox;
use url::Url;

use crate::hosts::Host;

/// More servers than this are refused.
const MAX_SERVERS: usize = 1000;

/// What the files say together.
#[derive(Debug, Default)]
pub struct Config {
    /// The servers that are wanted, in the order of the files; also those whose entry is broken ([`Reach::Broken`]).
    pub servers: Vec<ServerConfig>,
    /// The servers that are switched off.
    pub disabled: Vec<String>,
    /// What is no problem but should be said, such as that a file takes precedence over another.
    pub remarks: Vec<Message>,
    /// SHA-256 of what was read: the files, and the files of variables that they name.
    pub content: [u8; 32],
    /// Of each server of the files: its name, and how it is reached, as it is written there. For a person at a terminal, who must see what would
    /// run. Escaped; secrets may stand in it.
    pub written: Vec<(String, Vec<String>)>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerConfig {
    /// As its file calls it. Not yet safe to print.
    pub name: String,
    /// The file that describes it.
    pub file: PathBuf,
    /// Where it stands.
    pub place: Place,
    /// How it is reached.
    pub reach: Reach,
    /// Our options for it.
    pub options: Options,
    /// An earlier server that has the same account, though neither says how to sign in. Only that one may use the account.
    pub account_is_of: Option<String>,
}

/// What tells one account from another: the server's URL, whether there is a `resource`, the parameters, the label.
pub(crate) type AccountIdentity = (String, bool, BTreeMap<String, String>, String);

/// What is wrong with a server that would use the same account as this one, and what to do.
pub fn same_account(other: &str) -> String {
    format!(
        "it would use the same account as the server {}; set another \"account\" in \"regrow\": {{ \"signIn\": ... }} of one of them",
        printable(other)
    )
}

impl ServerConfig {
    /// Whether its entry names a credential, so that no account is used.
    pub fn has_credential(&self) -> bool {
        let Reach::Remote(remote) = &self.reach else { return false };
        let authorizes = |name: &str| name.trim().eq_ignore_ascii_case("authorization");
        self.options.header_file.is_some() || remote.headers.iter().any(|(name, _)| authorizes(name))
    }

    /// The account that it uses; none if it is not remote or has another credential.
    pub(crate) fn account(&self) -> Option<AccountIdentity> {
        let Reach::Remote(remote) = &self.reach else { return None };
        let mut url = Url::parse(remote.url.reveal()).ok().filter(|_| !self.has_credential())?;
        url.set_fragment(None);
        let SignIn { no_resource, authorize_params, account, client_id, client_credentials, .. } =
            self.options.sign_in.clone();
        let mut parameters = authorize_params;
        if client_credentials {
            parameters.insert("client_id".into(), client_id.unwrap_or_default());
        }
        Some((url.into(), no_resource, parameters, account))
    }

    /// The sandbox that it runs in, if we start it and it has one.
    pub fn sandbox(&self) -> Option<&Sandbox> {
        self.options.sandbox.as_ref().filter(|_| matches!(self.reach, Reach::Process(_)))
    }

    /// What is wrong with its entry, if something is. Then it cannot be served.
    pub fn problems(&self) -> Option<&Problems> {
        match &self.reach {
            Reach::Broken(problems) => Some(problems),
            Reach::Process(_) | Reach::Remote(_) => None,
        }
    }
}

impl Config {
    /// Reads these files. Where two name the same server, the later file wins, and a remark says so.
    ///
    /// A server whose entry has problems is broken, and the others are not concerned. What concerns a whole file is refused, and then
    /// every problem of every file is told in one go.
    pub fn read(paths: &[impl AsRef<Path>], surroundings: &Surroundings) -> Result<Config, Problems> {
        let mut config = Config::default();
        let mut problems = vec![];
        let mut content = Content::default();
        for path in paths {
            match Document::open(path.as_ref()) {
                Ok(document) => config.add(&document, surroundings, &mut problems, &mut content),
                Err(message) => problems.push(message),
            }
        }
        config.content = content.hash();
        config.refuse_shared_accounts();
        if let Some(server) = config.servers.get(MAX_SERVERS) {
            let text = format!("there are more than {MAX_SERVERS} servers; remove some");
            problems.push(Message::at(server.place.clone(), text));
        }
        if problems.is_empty() {
            return Ok(config);
        }
        problems.extend(config.broken().flat_map(|(_, problems)| problems.0.iter().cloned()));
        Err(Problems(problems))
    }

    /// The servers whose entry has problems, and these.
    pub fn broken(&self) -> impl Iterator<Item = (&ServerConfig, &Problems)> {
        self.servers.iter().filter_map(|server| Some((server, server.problems()?)))
    }

    /// Two servers that would use the same account: only their user knows whether that is wanted. The later one is broken if one of them says
    /// how to sign in. Otherwise nobody knows whether the server requires it, and the later one only gets no account.
    fn refuse_shared_accounts(&mut self) {
        let mut seen: Vec<(AccountIdentity, bool, String)> = vec![];
        for server in &mut self.servers {
            let Some(identity) = server.account() else { continue };
            let has_settings = server.options.sign_in != SignIn::default();
            let other = seen.iter().find(|(other, ..)| *other == identity);
            if let Some((_, other_has_settings, other)) = other {
                if !has_settings && !other_has_settings {
                    server.account_is_of = Some(other.clone());
                    continue;
                }
                let text = same_account(other);
                let message = Message::at(server.place.clone(), text).of_server(&server.name);
                server.reach = Reach::Broken(Problems(vec![message]));
                continue;
            }
            seen.push((identity, has_settings, server.name.clone()));
        }
    }

    fn add(
        &mut self,
        document: &Document,
        surroundings: &Surroundings,
        problems: &mut Vec<Message>,
        content: &mut Content,
    ) {
        content.add(document.text().as_bytes());
        let entries =
            entries::read(Reading::new(document, surroundings, problems, &mut self.remarks, content));
        for entry in entries {
            self.written.push((printable(&entry.name), entry.written));
            let mut names = self.servers.iter().map(|server| &server.name).chain(&self.disabled);
            if names.any(|name| *name == entry.name) {
                let text = "an earlier file has a server of this name, too; this one is used";
                self.remarks.push(Message::at(entry.place.clone(), text).of_server(&entry.name));
            }
            self.servers.retain(|server| server.name != entry.name);
            self.disabled.retain(|name| *name != entry.name);
            match entry.server {
                Some(server) => self.servers.push(server),
                None => self.disabled.push(entry.name),
            }
        }
    }
}

/// Whether a file has any server in it, or cannot be read, which its reader should be told.
fn has_servers(path: &Path, surroundings: &Surroundings) -> bool {
    match Document::open(path) {
        Ok(document) => document.root().map_or(true, |root| entries::has_servers(&root, path, surroundings)),
        Err(_) => true,
    }
}

/// The folder that `${workspaceFolder}` stands for in a file: that of the project which the file belongs to.
fn workspace_of(path: &Path, surroundings: &Surroundings) -> PathBuf {
    let absolute = surroundings.directory.join(path);
    match Host::project_of(&absolute) {
        // The settings of a user belong to no project.
        Some(project) if Some(project) != surroundings.home.as_deref() => project.to_owned(),
        _ => surroundings.directory.clone(),
    }
}

#[cfg(test)]
mod tests;
