//! The `regrow` command: parses, dispatches, and exits.

mod account;
mod adopt;
mod approve;
mod arguments;
mod ask;
mod chaos;
mod check;
mod client;
mod completions;
#[cfg(all(target_arch = "x86_64", any(target_env = "musl", test)))]
mod copy;
mod demo;
mod doctor;
mod files;
mod folder_config;
mod guard;
mod log;
mod man;
mod operate;
mod running;
mod serve;
mod signals;
mod starts;
mod table;
mod terminal;
mod trust;
mod watch;
mod wrap;

use std::ffi::OsStr;
use std::process::ExitCode;

use arguments::Command;
use regrow_gateway::operate::ServerCommand;

/// The allocator of musl maps and unmaps memory with nearly every read, which takes up to 40 % of the CPU time of a call.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Done.
const DONE: u8 = 0;
/// The server's or the call's failure.
const SERVER_FAILED: u8 = 1;
/// Ours.
const WE_FAILED: u8 = 2;
/// The command was not understood.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    regrow::transport::stdio::keep_private();
    match std::env::args_os().nth(1).as_deref().and_then(OsStr::to_str) {
        // Not for people: what we start ourselves, kept out of the way of the parser to start fast and small.
        Some("guard") => return regrow::transport::stdio::guard_main(),
        Some("chaos-server") => return regrow_chaos::server::run(),
        _ => {}
    }
    let arguments = match arguments::parse(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let wanted = !error.use_stderr(); // Help and version are no failures.
            let _ = error.print(); // Nobody is left to tell if even this fails.
            return ExitCode::from(if wanted { DONE } else { USAGE });
        }
    };
    terminal::set_colour(arguments.everywhere.colour);
    ExitCode::from(match arguments.command {
        Command::Wrap(options) => wrap::run(*options),
        Command::Serve(options) => serve::run(*options),
        Command::Check(options) => check::run(options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Approve(options) => approve::run(&options),
        Command::Trust(options) => trust::run(options),
        Command::Login(options) => account::login(*options),
        Command::Logout(options) => account::logout(options),
        Command::Accounts(options) => account::list(&options),
        Command::Adopt(options) => adopt::run(options),
        Command::Demo(options) => demo::run(options),
        Command::Status(options) => operate::status(&options),
        Command::Reconnect(options) => operate::command(&options, ServerCommand::Reconnect),
        Command::Drain(options) => operate::command(&options, ServerCommand::Drain),
        Command::Park(options) => operate::command(&options, ServerCommand::Park),
        Command::Wake(options) => operate::command(&options, ServerCommand::Wake),
        Command::ResetBudget(options) => operate::command(&options, ServerCommand::ResetBudget),
        Command::Logs(options) => operate::logs(&options),
        Command::LogLevel(options) => operate::log_level(&options),
        Command::Chaos(options) => chaos::run(options),
        Command::Completions(options) => completions::run(&options),
        Command::Man(options) => man::run(&options),
    })
}
