//! Reads what a gateway says about itself, again and again, as an operator's monitoring does.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use regrow_chaos::sync::lock;
use serde_json::Value;

use super::checks::{Broken, Promise, Reading, Standing, judge_down, judge_readings, judge_restarts};
use super::lane::Lane;
use super::serve::Gateway;
use super::{Asked, Stall, system};

/// Between two readings.
const PAUSE: Duration = Duration::from_millis(100);
/// No more are kept.
const MOST: usize = 200_000;
const STATES: [&str; 8] =
    ["idle", "connecting", "ready", "draining", "closing", "backoff", "parked", "closed"];

/// A server as its operator knows it.
pub(crate) struct Watched {
    pub(crate) name: String,
    /// The mark of its process; none where that is not the gateway's own.
    pub(crate) mark: Option<String>,
    /// How many of these it has while all is well.
    pub(crate) processes: usize,
}

pub(crate) struct Operator {
    gateway: Arc<Gateway>,
    servers: Vec<Watched>,
    began: Instant,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    readings: Vec<Reading>,
    /// Why nothing was told, and when.
    failures: Vec<String>,
}

impl Operator {
    pub(crate) fn new(gateway: Arc<Gateway>, servers: Vec<Watched>, began: Instant) -> Operator {
        Operator { gateway, servers, began, told: Mutex::default() }
    }

    /// Reads until it is over, and once more.
    pub(crate) fn watch(&self, over: &AtomicBool) {
        let mut is_last = false;
        while !is_last {
            is_last = over.load(Ordering::SeqCst);
            let reading = self.read();
            if self.gateway.program.exit().is_some() {
                return; // That is told elsewhere.
            }
            let mut told = lock(&self.told);
            match reading {
                Ok(reading) => told.readings.push(reading),
                Err(error) => {
                    told.failures.push(format!("at {:.3}s: {error}", self.began.elapsed().as_secs_f64()))
                }
            }
            if told.readings.len() + told.failures.len() >= MOST {
                return;
            }
            drop(told);
            thread::sleep(PAUSE);
        }
    }

    /// How many children the gateway has while all is well: the servers, and the guard.
    pub(crate) fn children(&self) -> usize {
        self.servers.iter().map(|server| server.processes).sum::<usize>() + 1
    }

    /// Whether all is said to be well.
    pub(crate) fn is_calm(&self) -> bool {
        self.read().is_ok_and(|reading| {
            reading.readyz == 200 && reading.standings.iter().all(|standing| standing.state == "ready")
        })
    }

    /// Judges all that was said about these lanes.
    pub(crate) fn judge(&self, whose: &str, lanes: &[Lane<'_>], stalls: &[Stall]) -> Vec<Broken> {
        let told = lock(&self.told);
        let failed = |what: &String| Broken {
            promise: Promise::Status,
            whose: whose.into(),
            what: format!("it could not be asked {what}"),
        };
        let mut broken: Vec<Broken> = told.failures.iter().map(failed).collect();
        let names: Vec<String> = lanes.iter().map(Lane::name).collect();
        broken.extend(judge_readings(whose, &names, &told.readings, stalls));
        for (server, (lane, name)) in lanes.iter().zip(&names).enumerate() {
            broken.extend(judge_down(name, server, &told.readings, &lane.record.calls));
            broken.extend(judge_restarts(name, server, &told.readings, lane.deaths));
        }
        broken
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> Asked {
        let readings = &lock(&self.told).readings;
        Asked {
            readings: readings.len(),
            steady: readings.iter().filter(|reading| reading.is_steady).count(),
            slowest: readings.iter().map(|reading| reading.livez).max().unwrap_or_default(),
        }
    }

    fn read(&self) -> io::Result<Reading> {
        let at = self.began.elapsed();
        let standings = self.standings()?;
        let (readyz, not_ready) = self.readiness()?;
        let gauges = self.gauges()?;
        let again = self.standings()?;
        let asked = Instant::now();
        let alive = self.gateway.page("/livez")?;
        let (livez, until) = (asked.elapsed(), self.began.elapsed());
        if alive.status != 200 {
            return Err(io::Error::other(format!("/livez says {}", alive.status)));
        }
        let is_steady = standings.iter().zip(&again).all(|(one, other)| one.is_as(other));
        Ok(Reading { at, until, standings, is_steady, readyz, not_ready, gauges, livez })
    }

    fn standings(&self) -> io::Result<Vec<Standing>> {
        let status = self.gateway.json("/status")?;
        let servers = status["servers"].as_array().map_or(&[][..], |servers| servers);
        let standing = |watched: &Watched| {
            let server = servers.iter().find(|server| server["name"] == *watched.name)?;
            Some(standing(server, watched.mark.as_deref()))
        };
        let all = self.servers.iter().map(standing).collect::<Option<_>>();
        all.ok_or_else(|| io::Error::other("/status does not tell of every server"))
    }

    fn readiness(&self) -> io::Result<(u16, Vec<usize>)> {
        let page = self.gateway.page("/readyz")?;
        let status = page.status;
        let said: Value = serde_json::from_str(&page.text()?)?;
        let named: HashSet<&str> = said["notReady"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|server| server["server"].as_str())
            .collect();
        let is_named = |at: &usize| named.contains(&*self.servers[*at].name);
        Ok((status, (0..self.servers.len()).filter(is_named).collect()))
    }

    fn gauges(&self) -> io::Result<Vec<&'static str>> {
        let text = self.gateway.page("/metrics")?.text()?;
        Ok(self.servers.iter().map(|server| gauge(&text, &server.name)).collect())
    }
}

fn standing(server: &Value, mark: Option<&str>) -> Standing {
    let pid = || server["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    let restarts = server["restarts"].as_object().into_iter().flatten();
    Standing {
        state: state(server["state"].as_str().unwrap_or_default()),
        in_state: Duration::from_secs_f64(server["inStateMs"].as_f64().unwrap_or(0.0).max(0.0) / 1000.0),
        epoch: server["epoch"].as_u64().unwrap_or(0),
        counts: server["eager"] == true && server["stopped"] != true,
        restarts: restarts.filter_map(|(_, count)| count.as_u64()).sum(),
        lives: mark.is_none_or(|mark| pid().is_some_and(|pid| system::marked_process(pid, mark).is_some())),
    }
}

/// The one state that has a 1.
fn gauge(metrics: &str, server: &str) -> &'static str {
    let is_in = |state: &&&str| {
        let sample = format!("regrow_server_state{{server=\"{server}\",state=\"{state}\"}} 1");
        metrics.lines().any(|line| line == sample)
    };
    let mut states = STATES.iter().filter(is_in);
    match (states.next(), states.next()) {
        (Some(state), None) => state,
        (None, _) => "no state",
        (Some(_), Some(_)) => "two states",
    }
}

fn state(name: &str) -> &'static str {
    STATES.into_iter().find(|state| *state == name).unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
