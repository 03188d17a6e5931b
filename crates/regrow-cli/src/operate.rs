//! `regrow status`, `logs`, `log-level` and the orders to servers: what an operator sees of a running gateway and has it do.

mod failure;
mod gateway;
mod lines;
mod place;
mod table;

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use regrow_gateway::operate::{self, Overview, ServerCommand};
use regrow_protocol::text::escape;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::arguments::{self, LogLevel, Logs, Status, ToLog, ToServer};
use crate::signals::{ENDED_BY_SIGNAL, told_to_end};
use crate::terminal::{Live, Screen};
use crate::{DONE, SERVER_FAILED, WE_FAILED, account};
use failure::Failure;
use gateway::Gateway;
use lines::new_lines;

/// The fault of a server that waits for a person to sign in.
const SIGN_IN_NEEDED: &str = "sign-in-needed";
/// How often is looked again.
const AGAIN: Duration = Duration::from_secs(1);
/// The gateway has other things to do.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);
/// SIGINT, which is how a person ends `--watch`.
const INTERRUPTED: u8 = 2;

pub(crate) fn status(options: &Status) -> u8 {
    run(async {
        let gateway = Gateway::new(&options.gateway)?;
        let (text, broken) = show(options, &gateway, gateway.get(&["status"]).await?)?;
        if !options.watch {
            print(&text)?;
            return Ok(if broken { SERVER_FAILED } else { DONE });
        }
        let told_to_end = told_to_end().map_err(Failure::Output)?;
        tokio::select! {
            biased;
            signal = told_to_end => {
                if Screen::stdout().is_terminal() {
                    print("\n")?; // After the `^C` that the terminal shows.
                }
                Ok(if signal == INTERRUPTED { DONE } else { ENDED_BY_SIGNAL + signal })
            }
            failure = watch(options, &gateway, text) => Err(failure),
        }
    })
}

/// Shows the status again and again, until it cannot be shown any more.
async fn watch(options: &Status, gateway: &Gateway, first: String) -> Failure {
    let screen = Screen::stdout();
    let mut live = (screen.is_terminal() && !options.json).then(|| Live::new(screen));
    let mut text = first;
    loop {
        let shown = match &mut live {
            Some(live) => {
                live.draw(&text.lines().map(str::to_owned).collect::<Vec<_>>()).map_err(Failure::Output)
            }
            None => print(&text),
        };
        if let Err(failure) = shown {
            return failure;
        }
        sleep(options.interval.max(SHORTEST_INTERVAL)).await;
        // The gateway may be restarting, so a failure is shown, and asked again.
        let asked = gateway.get(&["status"]).await.and_then(|value| show(options, gateway, value));
        text = match asked {
            Ok((text, _)) => text,
            Err(failure) if live.is_some() => screen.paragraph("", &format!("regrow: {failure}")),
            Err(failure) => {
                eprintln!("regrow: {failure}"); // A reader of JSON must not read this.
                String::new()
            }
        };
    }
}

pub(crate) fn command(options: &ToServer, command: ServerCommand) -> u8 {
    run(async {
        let gateway = Gateway::new(&options.gateway)?;
        gateway.post(&["admin", "servers", &options.server, command.name()], None).await?;
        eprintln!("regrow: {}: {} accepted", escape(&options.server), command.name());
        Ok(DONE)
    })
}

/// Has the gateways that run on this machine, or the one that is named, read the pins of a server again.
pub(crate) fn tell_approved(options: &arguments::GatewayArguments, server: &str) -> u8 {
    run(async {
        let gateways = match options.url {
            Some(_) => vec![Gateway::new(options)?],
            None => Gateway::all(options)?,
        };
        for gateway in gateways {
            match gateway.post(&["admin", "servers", server, ServerCommand::Approve.name()], None).await {
                Err(Failure::Refused(_)) if options.url.is_none() => {} // It has no such server.
                told => drop(told?),
            }
        }
        Ok(DONE)
    })
}

pub(crate) fn logs(options: &Logs) -> u8 {
    run(async {
        let gateway = Gateway::new(&options.gateway)?;
        let mut seen = vec![];
        loop {
            let value = gateway.get(&["admin", "servers", &options.server, "logs"]).await?;
            let lines: Vec<String> = serde_json::from_value(value["lines"].clone())
                .map_err(|_| Failure::NotAGateway { url: gateway.shown() })?;
            let text: String = new_lines(&seen, &lines).map(|line| escape(line) + "\n").collect();
            print(&text)?;
            if !options.follow {
                return Ok(DONE);
            }
            seen = lines;
            sleep(AGAIN).await;
        }
    })
}

pub(crate) fn log_level(options: &ToLog) -> u8 {
    let level = match options.level {
        LogLevel::Off => operate::LogLevel::Off,
        LogLevel::Error => operate::LogLevel::Error,
        LogLevel::Warn => operate::LogLevel::Warn,
        LogLevel::Info => operate::LogLevel::Info,
        LogLevel::Debug => operate::LogLevel::Debug,
    };
    run(async {
        let gateway = Gateway::new(&options.gateway)?;
        gateway.post(&["admin", "log-level"], Some(json!({ "level": level }))).await?;
        eprintln!("regrow: the log level of the gateway is changed");
        Ok(DONE)
    })
}

/// The status as it was asked for, and whether a server is broken.
fn show(options: &Status, gateway: &Gateway, value: Value) -> Result<(String, bool), Failure> {
    let mut overview: Overview =
        serde_json::from_value(value.clone()).map_err(|_| Failure::NotAGateway { url: gateway.shown() })?;
    if gateway.is_here() {
        overview.servers.iter_mut().for_each(add_sign_in);
    }
    let text = match (options.json, options.watch) {
        (true, true) => format!("{value}\n"), // A line each time.
        (true, false) => format!("{value:#}\n"),
        (false, _) => table::text(&overview, Screen::stdout()),
    };
    Ok((text, overview.servers.iter().any(operate::ServerReport::is_broken)))
}

/// Says how to sign in at a server that waits for it, as far as that is known on this machine.
fn add_sign_in(server: &mut operate::ServerReport) {
    let fault = server.last_fault.as_mut().filter(|fault| fault.kind == SIGN_IN_NEEDED);
    if let Some((fault, sign_in)) = fault.zip(account::sign_in_of(&server.name)) {
        fault.text.push_str(&sign_in);
    }
}

fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(Failure::Output)
}

/// What was said to the person, if anything had to be, is the exit code.
fn run(command: impl Future<Output = Result<u8, Failure>>) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("regrow: {error}");
            return WE_FAILED;
        }
    };
    let done = runtime.block_on(command);
    runtime.shutdown_background();
    done.unwrap_or_else(|failure| failure.told())
}
