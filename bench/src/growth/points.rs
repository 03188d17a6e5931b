//! One size of one dimension: starts Regrow with so many, and makes calls.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::sleep;

use super::Dimension;
use crate::contestant::isolate;
use crate::load::call::Calls;
use crate::load::{Client, Load, Stop};
use crate::options::Era;
use crate::running::{Address, Running};
use crate::system::{self, Meter};

/// At least so many calls are measured.
const CALLS: usize = 4000;

pub(crate) struct Point {
    pub(crate) dimension: Dimension,
    pub(crate) size: usize,
    /// CPU time of Regrow until all of them are there.
    pub(crate) setup_ms: f64,
    /// CPU time of Regrow for each call after that.
    pub(crate) call_us: f64,
    pub(crate) mib: f64,
}

pub(crate) async fn measure(regrow: &Path, dimension: Dimension, size: usize) -> io::Result<Point> {
    let folder = tempfile::tempdir()?;
    let calls = Calls::new(Era::Legacy, 100);
    let is_wrap = matches!(dimension, Dimension::InFlight | Dimension::Subscriptions);
    let own = std::env::current_exe()?.to_string_lossy().into_owned();
    let mut command = Command::new(regrow);
    if is_wrap {
        command.args(["wrap", "--name", "echo"]);
        // By default, more than 4,096 calls in flight are refused.
        command.arg("--queue").arg(size.max(4096).to_string());
        command.args(["--", &own, "echo"]);
    } else {
        let file = folder.path().join("mcp.json");
        std::fs::write(&file, config(&own, dimension, size).to_string())?;
        command.args(["serve", "--port", "0"]).arg(file);
    }
    isolate(&mut command, folder.path());
    let mut running = Running::start(command, (!is_wrap).then_some(Address::Stderr))?;
    let meter = Meter::new(running.pid().expect("a process"))?;
    let measured = work(&mut running, &meter, &calls, dimension, size).await;
    let (setup, after, calls) = measured.map_err(|error| running.explain(&error))?;
    Ok(Point {
        dimension,
        size,
        setup_ms: setup.as_secs_f64() * 1e3,
        call_us: after.saturating_sub(setup).as_secs_f64() * 1e6 / calls as f64,
        mib: system::memory(running.pid().expect("a process"), "VmRSS")? as f64 / 1024.0,
    })
}

/// The first server's tool keeps its name.
fn config(own: &str, dimension: Dimension, size: usize) -> Value {
    let number_of = |counted| if dimension == counted { size } else { 1 };
    let (servers, tools) = (number_of(Dimension::Servers), number_of(Dimension::Tools));
    let servers: Map<String, Value> = (0..servers)
        .map(|number| {
            let mut entry = json!({ "command": own, "args": ["echo", "--tools", tools.to_string()] });
            if number == 0 {
                entry["regrow"] = json!({ "tools": { "prefix": "" } });
            }
            (format!("server-{number}"), entry)
        })
        .collect();
    json!({ "mcpServers": servers })
}

/// CPU time when everything is set up, CPU time when the calls are done, and how many those were.
async fn work(
    running: &mut Running,
    meter: &Meter,
    calls: &Calls,
    dimension: Dimension,
    size: usize,
) -> io::Result<(Duration, Duration, usize)> {
    running.client.greet(calls).await?;
    let mut others: Vec<Client> = vec![];
    match (&mut running.client, dimension) {
        (Client::Http(site), Dimension::Servers) => {
            while site.tools(calls).await? < size {
                sleep(Duration::from_millis(50)).await;
            }
        }
        (Client::Http(site), Dimension::Clients) => {
            for _ in 1..size {
                let mut other = Client::Http(site.another());
                other.greet(calls).await?;
                others.push(other);
            }
        }
        (Client::Stdio(pipes), Dimension::Subscriptions) => pipes.subscribe(size).await?,
        _ => {}
    }
    let setup = meter.read()?.cpu;
    let in_flight = if dimension == Dimension::InFlight { size } else { 1 };
    // A client makes enough calls that opening its connection does not show.
    let each = (CALLS / (others.len() + 1)).max(4 * in_flight).max(40);
    let load = Load { calls: calls.clone(), in_flight, stop: Stop::Calls(each) };
    running.client.run(&load, None).await?;
    for other in &mut others {
        other.run(&load, None).await?;
    }
    Ok((setup, meter.read()?.cpu, (each + in_flight - 1) * (others.len() + 1)))
}
