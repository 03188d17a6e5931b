//! What is served where there is no configuration.

use std::collections::BTreeMap;

use regrow_gateway::config::{Config, Inherit, Options, Place, Process, Reach, Secret, ServerConfig};

/// The demo's server, so that there is something to try; and how to get one's own.
pub(super) fn config() -> Config {
    eprintln!(
        "regrow: no configuration here, and none of a known host: serving a demo server.\n\
         To serve your own, write .mcp.json with {{ \"mcpServers\": {{ \"NAME\": {{ \"command\": \"...\" }} }} }}, \
         or name a file: regrow serve FILE"
    );
    let program = std::env::current_exe().unwrap_or_else(|_| "regrow".into());
    let process = Process {
        program: program.to_string_lossy().into_owned(),
        args: vec![Secret::new("chaos-server")],
        variables: BTreeMap::new(),
        inherit: Inherit::Named(vec![]),
        removed: vec![],
        directory: None,
    };
    let server = ServerConfig {
        name: "demo".into(),
        file: "the demo".into(),
        place: Place { file: "the demo".into(), line: 0, column: 0 },
        reach: Reach::Process(process),
        options: Options::default(),
        account_is_of: None,
    };
    Config { servers: vec![server], ..Config::default() }
}
