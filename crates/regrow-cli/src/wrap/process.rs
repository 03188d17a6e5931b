//! A server that we start: its command, its environment, its name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;

use regrow::transport::stdio::{Stderr, Stdio, environment};
use regrow::{Mask, Port};

use super::Connected;
use crate::arguments::{self, Wrap};
use crate::guard;

/// A server's command, and the environment that it gets.
pub(super) struct Process {
    command: Vec<OsString>,
    environment: environment::Environment,
}

impl Process {
    /// Says what is wrong with the command line.
    pub(super) fn read(options: &Wrap) -> Result<Process, String> {
        Ok(Process { command: options.command.clone(), environment: environment_of(options)? })
    }

    pub(super) fn name(&self) -> String {
        name_of(&self.command)
    }

    /// Starts the guard, and the server.
    pub(super) fn connect(self, options: &Wrap, name: Arc<str>, port: Arc<Port>) -> io::Result<Connected> {
        let environment = self.environment;
        let secrets = environment
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
        // What the operator names is not for everybody either, unless every program gets it anyway.
        let harmless = environment::clean();
        let named = options.variables.iter().filter_map(|variable| {
            let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
            let value = environment.get(OsStr::new(name))?;
            (!harmless.contains_key(OsStr::new(name))).then(|| value.to_str().map(str::to_owned))?
        });
        let mask = Mask::new(Mask::secrets_of(secrets).chain(named).collect::<Vec<_>>());
        let mut stdio = Stdio::new(&*name, &self.command[0])
            .args(&self.command[1..])
            .environment(environment)
            .mask(mask.clone())
            .guard(Arc::new(guard::start()?))
            .stderr(match options.stderr {
                arguments::Stderr::Pass => Stderr::Pass,
                arguments::Stderr::Keep => Stderr::Keep,
            });
        if let Some(directory) = &options.cwd {
            stdio = stdio.directory(directory);
        }
        let connection = super::builder(options, name, stdio, mask).relay_to(port).build();
        connection.start();
        Ok(Connected { upstream: Box::new(connection.clone()), connection })
    }
}

/// Our environment as the host chose it, or a short list of it; and what `-e` names.
fn environment_of(options: &Wrap) -> Result<environment::Environment, String> {
    let mut environment = if options.clean_env { environment::clean() } else { environment::inherited() };
    for variable in &options.variables {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, OsString::from(value)),
            None => match std::env::var_os(variable) {
                Some(value) => (variable.as_str(), value),
                None => {
                    return Err(format!(
                        "-e {variable}: there is no such variable; set it, or write {variable}=VALUE"
                    ));
                }
            },
        };
        if name.is_empty() {
            return Err("-e: a variable needs a name; write NAME=VALUE".into());
        }
        environment.insert(name.into(), value);
    }
    Ok(environment)
}

/// A name for a server from its command: that of the program, or of what a runner such as `npx` runs.
fn name_of(command: &[OsString]) -> String {
    const RUNNERS: [&str; 12] =
        ["npx", "npm", "pnpm", "bunx", "uvx", "uv", "node", "deno", "bun", "python", "python3", "docker"];
    const WORDS: [&str; 4] = ["exec", "run", "tool", "dlx"];
    let stem =
        |argument: &OsStr| Path::new(argument).file_stem().unwrap_or(argument).to_string_lossy().into_owned();
    let program = command.first().map(|program| stem(program)).unwrap_or_default();
    if !RUNNERS.contains(&program.as_str()) {
        return program;
    }
    let run = command[1..].iter().find(|argument| {
        let argument = argument.to_string_lossy();
        !argument.starts_with('-') && !WORDS.contains(&&*argument)
    });
    // `@scope/package@1.2.3`: the version is no part of the name.
    let name = run.map(|argument| {
        let argument = argument.to_string_lossy();
        let package = argument.rsplit('/').next().unwrap_or(&argument);
        stem(OsStr::new(package.split('@').find(|part| !part.is_empty()).unwrap_or(package)))
    });
    name.unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_after_what_runs() {
        let name = |command: &str| name_of(&command.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(name("npx -y @modelcontextprotocol/server-everything"), "server-everything");
        assert_eq!(name("npx -y @scope/thing@1.2.3"), "thing");
        assert_eq!(name("/usr/bin/python3 -m mcp_server_time"), "mcp_server_time");
        assert_eq!(name("uvx mcp-server-git"), "mcp-server-git");
        assert_eq!(name("/opt/bin/my-server.sh --port 3"), "my-server");
        assert_eq!(name("node"), "node");
    }
}
