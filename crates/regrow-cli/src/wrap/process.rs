//! A server that we start: its command, its environment, its name.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use regrow::transport::stdio::{Guard, Stderr, Stdio, environment};
use regrow::{Mask, Port};

use super::Connected;
use super::name::name_of;
use crate::arguments::{self, Wrap};

/// A server's command, and the environment that it gets.
pub(super) struct Process {
    command: Vec<OsString>,
    environment: environment::Environment,
}

impl Process {
    /// The error says what is wrong with the command line.
    pub(super) fn read(options: &Wrap) -> Result<Process, String> {
        Ok(Process { command: options.command.clone(), environment: environment_of(options)? })
    }

    pub(super) fn name(&self) -> String {
        name_of(&self.command)
    }

    /// Starts the server once its guard runs.
    pub(super) fn connect(
        self,
        options: &Wrap,
        name: Arc<str>,
        port: Arc<Port>,
        guard: Arc<Guard>,
    ) -> Connected {
        let environment = self.environment;
        let secrets = environment
            .iter()
            .filter_map(|(name, value)| Some((name.to_str()?.to_owned(), value.to_str()?.to_owned())));
        // What the operator names is not for everybody either, unless every program gets it anyway. An address with a user in it may be
        // a secret even then.
        let common = environment::clean();
        let named = options.variables.iter().filter_map(|variable| {
            let name = variable.split_once('=').map_or(variable.as_str(), |(name, _)| name);
            let value = environment.get(OsStr::new(name))?.to_str()?;
            (value.contains('@') || !common.contains_key(OsStr::new(name))).then(|| value.to_owned())
        });
        let mask = Mask::new(Mask::secrets_of(secrets).chain(named).collect::<Vec<_>>());
        let mut stdio = Stdio::new(&*name, &self.command[0])
            .args(&self.command[1..])
            .environment(environment)
            .mask(mask.clone())
            .new_privileges(options.allow_new_privileges)
            .guard(guard)
            .stderr(match options.stderr {
                arguments::StderrMode::Pass => Stderr::Pass,
                arguments::StderrMode::Keep => Stderr::Keep,
            });
        if let Some(directory) = &options.cwd {
            stdio = stdio.directory(directory);
        }
        let connection = super::builder(options, name, stdio, mask).relay_to(port).build();
        connection.start();
        Connected { upstream: Arc::new(connection.clone()), connection }
    }
}

/// Our environment as the host chose it, or a short list of it; and what `-e` names.
fn environment_of(options: &Wrap) -> Result<environment::Environment, String> {
    let mut environment = if options.clean_env { environment::clean() } else { environment::inherited() };
    for (name, value) in named_variables(options, |name| std::env::var_os(name))? {
        environment.insert(name.into(), value);
    }
    Ok(environment)
}

/// What `-e` says: each variable and its value, which is looked up where only the name is given. The error says what to do.
pub(crate) fn named_variables(
    options: &Wrap,
    value_of: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<(&str, OsString)>, String> {
    let mut named = vec![];
    for variable in &options.variables {
        let (name, value) = match variable.split_once('=') {
            Some((name, value)) => (name, value.into()),
            None => {
                let not_set =
                    || format!("-e {variable}: the variable is not set; set it, or write {variable}=VALUE");
                (variable.as_str(), value_of(variable).ok_or_else(not_set)?)
            }
        };
        if name.is_empty() {
            return Err("-e: a variable needs a name; write NAME=VALUE".into());
        }
        named.push((name, value));
    }
    Ok(named)
}
