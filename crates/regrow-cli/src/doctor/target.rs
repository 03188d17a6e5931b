//! What an entry of a configuration starts or reaches in the end: of `regrow wrap`, the server behind it.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use regrow::transport::stdio::environment::is_allowed;
use regrow_auth::settings::Settings;
use regrow_gateway::config::{Inherit, Options, Process, Reach, Remote, Secret, ServerConfig, Surroundings};
use regrow_protocol::text::escape;

use crate::arguments::{Command, RemoteArguments, Wrap, parse};
use crate::wrap::name::name_of;
use crate::wrap::process::named_variables;
use crate::wrap::remote::{address_of, era_of, headers_of};

/// A server, and what stands before it.
pub(super) struct Target {
    /// The server itself.
    pub(super) server: ServerConfig,
    pub(super) behind: Behind,
    /// How its `regrow wrap` signs in to it.
    pub(super) sign_in: Option<Settings>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// Its host starts or reaches it.
    Nothing,
    Wrap,
    /// It is Regrow in another role, such as `regrow serve`.
    Regrow,
    /// Its `regrow wrap` would fail, and why.
    Failing(String),
}

/// The name of our executable.
pub(super) fn is_regrow(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "regrow")
}

pub(super) fn of(server: &ServerConfig, surroundings: &Surroundings) -> Target {
    let target = |server, behind| Target { server, behind, sign_in: None };
    let Reach::Process(process) = &server.reach else { return target(server.clone(), Behind::Nothing) };
    let arguments: Vec<OsString> = process.args.iter().map(|word| word.reveal().into()).collect();
    let words: Vec<OsString> = [vec![OsString::from(&process.program)], arguments].concat();
    let command = match is_regrow(&process.program) {
        true => 1,
        // A package runner: its words come before those of `regrow`.
        false if name_of(&words) == "regrow" => words.iter().position(|word| word == "wrap").unwrap_or(1),
        false => return target(server.clone(), Behind::Nothing),
    };
    if words.get(command).is_none_or(|word| word != "wrap") {
        return target(server.clone(), Behind::Regrow);
    }
    let words = [&["regrow".into()], &words[command..]].concat();
    // The parser's own words could quote a secret.
    let parsed = parse(words).map_err(|error| error.kind().to_string());
    let wrapped = match parsed.map(|arguments| arguments.command) {
        Ok(Command::Wrap(wrap)) => wrapped(&wrap, process, server, surroundings)
            .map(|server| (server, wrap.remote.sign_in_settings())),
        Ok(_) => Err("it is another command".to_owned()),
        Err(kind) => Err(kind),
    };
    match wrapped {
        Ok((server, sign_in)) => Target { server, behind: Behind::Wrap, sign_in: Some(sign_in) },
        Err(problem) => target(server.clone(), Behind::Failing(escape(&problem))),
    }
}

/// The server that `regrow wrap` starts or reaches when its host starts it so.
fn wrapped(
    wrap: &Wrap,
    process: &Process,
    server: &ServerConfig,
    surroundings: &Surroundings,
) -> Result<ServerConfig, String> {
    // What `regrow wrap` has in its environment.
    let variable = |name: &str| {
        let of_entry = process.variables.get(name).map(Secret::reveal);
        of_entry.or_else(|| surroundings.variables.get(name).map(String::as_str)).map(str::to_owned)
    };
    let options =
        Options { connect_timeout: wrap.connect_timeout, max_line: wrap.max_line, ..server.options.clone() };
    let Some(url) = &wrap.url else {
        let mut words = wrap.command.iter().map(|word| word.to_string_lossy().into_owned());
        let mut inner = process.clone();
        inner.program = words.next().ok_or("it names no server")?;
        inner.args = words.map(Secret::new).collect();
        inner.directory = wrap.cwd.clone().or(inner.directory);
        if wrap.clean_env {
            inner.inherit = Inherit::Named(vec![]);
            inner.variables.retain(|name, _| is_allowed(OsStr::new(name)));
        }
        for (name, value) in named_variables(wrap, |name| variable(name).map(OsString::from))? {
            inner.variables.insert(name.to_owned(), Secret::new(value.to_string_lossy()));
        }
        let no_new_privileges = !wrap.allow_new_privileges;
        let options = Options { no_new_privileges, ..options };
        return Ok(ServerConfig { reach: Reach::Process(inner), options, ..server.clone() });
    };
    let url = address_of(url, variable)?;
    let RemoteArguments { header_file, bearer_env, era, .. } = &wrap.remote;
    let headers = headers_of(&wrap.remote)?.into_iter();
    let mut headers: Vec<(String, Secret)> =
        headers.map(|(name, value)| (name.to_owned(), Secret::new(value))).collect();
    if let Some(name) = bearer_env {
        let token = variable(name).ok_or_else(|| format!("--bearer-env {name}: the variable is not set"))?;
        headers.push(("Authorization".into(), Secret::new(format!("Bearer {token}"))));
    }
    let options = Options {
        header_file: header_file.clone(),
        ca_file: wrap.remote.ca_file.clone(),
        client_cert: wrap.remote.client_cert.clone(),
        client_key: wrap.remote.client_key.clone(),
        reach_timeout: wrap.remote.reach_timeout,
        era: era_of(*era),
        ..options
    };
    let reach = Reach::Remote(Remote { url: Secret::new(url), headers, dialect: None });
    Ok(ServerConfig { reach, options, ..server.clone() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use regrow_gateway::config::Place;

    use super::*;

    fn target_of(words: &str) -> Target {
        let mut words = words.split_whitespace();
        let process = Process {
            program: words.next().unwrap().to_owned(),
            args: words.map(Secret::new).collect(),
            variables: BTreeMap::from(["OWN", "PATH"].map(|name| (name.to_owned(), Secret::new("1")))),
            inherit: Inherit::Named(vec![]),
            removed: vec![],
            directory: None,
        };
        let server = ServerConfig {
            name: "x".into(),
            file: "x.json".into(),
            place: Place { file: "x.json".into(), line: 1, column: 1 },
            reach: Reach::Process(process),
            options: Options::default(),
            account_is_of: None,
        };
        of(&server, &Surroundings::default())
    }

    #[test]
    fn the_server_behind_regrow_is_found_however_regrow_is_started() {
        for words in [
            "regrow wrap -- npx -y thing",
            "/opt/bin/regrow wrap --call-timeout 5s npx -y thing",
            "npx -y regrow wrap -- npx -y thing",
            "npx -y regrow@0.1.0 wrap -- npx -y thing",
            "uvx regrow wrap -- npx -y thing",
        ] {
            let Target { server, behind, .. } = target_of(words);
            let Reach::Process(process) = &server.reach else { panic!("{words}") };
            assert_eq!((behind, &*process.program, process.args.len()), (Behind::Wrap, "npx", 2), "{words}");
        }
        let remote =
            target_of("regrow wrap -H X-Key:1 --bearer-env OWN --account work https://acme.example/mcp");
        let Reach::Remote(Remote { url, headers, .. }) = &remote.server.reach else { panic!() };
        assert_eq!((url.reveal(), headers.len()), ("https://acme.example/mcp", 2));
        assert_eq!(remote.sign_in.unwrap().account, "work");
    }

    #[test]
    fn a_clean_environment_has_only_what_everybody_gets_and_what_is_named() {
        let named = |words| match target_of(words).server.reach {
            Reach::Process(process) => process.variables.into_keys().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(named("regrow wrap -- npx"), ["OWN", "PATH"]);
        assert_eq!(named("regrow wrap --clean-env -- npx"), ["PATH"]);
        assert_eq!(named("regrow wrap --clean-env -e OWN -e X=1 -- npx"), ["OWN", "PATH", "X"]);
    }

    #[test]
    fn what_is_not_behind_regrow_stays_and_what_would_fail_says_why() {
        let behind = |words| target_of(words).behind;
        assert_eq!(behind("npx -y thing"), Behind::Nothing);
        assert_eq!(behind("regrow serve --transport stdio"), Behind::Regrow);
        assert_eq!(behind("uvx regrow serve"), Behind::Regrow);
        let failing = |words, why: &str| match behind(words) {
            Behind::Failing(problem) => assert!(problem.contains(why), "{problem}"),
            other => panic!("{words}: {other:?}"),
        };
        failing("regrow wrap --no-such-option -- npx", "unexpected argument");
        failing("regrow wrap -e SURELY_NOT_SET -- npx", "-e SURELY_NOT_SET: the variable is not set");
        failing("regrow wrap env:SURELY_NOT_SET", "env:SURELY_NOT_SET: the variable is not set");
        failing(
            "regrow wrap --bearer-env SURELY_NOT_SET https://h",
            "SURELY_NOT_SET: the variable is not set",
        );
        failing("regrow wrap -H X-Key https://h", "-H: write a header as 'Name: value'");
        failing("regrow wrap -e =x -- npx", "a variable needs a name");
    }
}
