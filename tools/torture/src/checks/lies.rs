//! What a gateway says about its servers, held against what is so.

use std::time::Duration;

use super::{Broken, Promise};
use crate::call::{Call, Told};
use crate::{Stall, stalls};

/// What was just so may still be said for so long; longer by the time in which the machine stood still.
const GRACE: Duration = Duration::from_secs(2);

/// What an operator was told at one time, all of it between `at` and `until`.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Duration,
    pub(crate) until: Duration,
    /// `/status`, of each server.
    pub(crate) standings: Vec<Standing>,
    /// `/status` said the same once more after the other pages, so that they must agree with it.
    pub(crate) is_steady: bool,
    /// The status of `/readyz`.
    pub(crate) readyz: u16,
    /// The servers that it says are not ready.
    pub(crate) not_ready: Vec<usize>,
    /// The state of each server in `/metrics`.
    pub(crate) gauges: Vec<&'static str>,
    /// How long `/livez` took.
    pub(crate) livez: Duration,
}

/// What is said about one server, and what is so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: &'static str,
    pub(crate) in_state: Duration,
    pub(crate) epoch: u64,
    /// It makes the gateway not ready unless it is ready itself.
    pub(crate) counts: bool,
    pub(crate) restarts: u64,
    /// Whether the process lives that is said to be the server. A remote one is taken for alive.
    pub(crate) lives: bool,
}

impl Standing {
    fn is_ready(&self) -> bool {
        self.state == "ready"
    }

    /// Whether nothing has happened to it from one reading to the other.
    pub(crate) fn is_as(&self, other: &Standing) -> bool {
        (self.state, self.epoch, self.counts) == (other.state, other.epoch, other.counts)
    }
}

/// Judges all that was said; `names` are those of the servers, `whole` that of the gateway.
pub(crate) fn judge_readings(
    whole: &str,
    names: &[String],
    readings: &[Reading],
    stalls: &[Stall],
) -> Vec<Broken> {
    let mut lies = vec![];
    let mut lie = |whose: &str, at: Duration, what: String| {
        let what = format!("at {:.3}s {what}", at.as_secs_f64());
        lies.push(Broken { promise: Promise::Status, whose: whose.into(), what });
    };
    // Of each server: said to be ready in this session though it is dead, since when, and whether that was told.
    let mut dead: Vec<Option<(u64, Duration, bool)>> = vec![None; names.len()];
    for reading in readings {
        for ((standing, dead), name) in reading.standings.iter().zip(&mut dead).zip(names) {
            *dead = match *dead {
                _ if !standing.is_ready() || standing.lives => None,
                Some((epoch, since, told)) if epoch == standing.epoch => {
                    let length = reading.at.saturating_sub(since);
                    let is_lie = length > GRACE + stalls::within(stalls, since, reading.at);
                    if is_lie && !told {
                        let what = format!("/status says ready, {:.1}s after it died", length.as_secs_f64());
                        lie(name, reading.at, what);
                    }
                    Some((epoch, since, told || is_lie))
                }
                _ => Some((standing.epoch, reading.until, false)),
            };
        }
        if reading.livez > GRACE + stalls::within(stalls, reading.at, reading.until) {
            lie(whole, reading.at, format!("/livez took {:.3}s", reading.livez.as_secs_f64()));
        }
        if !reading.is_steady {
            continue;
        }
        let is_missing = |at: &usize| reading.standings[*at].counts && !reading.standings[*at].is_ready();
        let missing: Vec<usize> = (0..reading.standings.len()).filter(is_missing).collect();
        let code = if missing.is_empty() { 200 } else { 503 };
        if (reading.readyz, &reading.not_ready) != (code, &missing) {
            let named = |servers: &[usize]| servers.iter().map(|at| &*names[*at]).collect::<Vec<_>>();
            let (said, wanted) = (named(&reading.not_ready), named(&missing));
            let what = format!("/readyz says {} {said:?}, /status {code} {wanted:?}", reading.readyz);
            lie(whole, reading.at, what);
        }
        for ((standing, gauge), name) in reading.standings.iter().zip(&reading.gauges).zip(names) {
            if *gauge != standing.state {
                lie(name, reading.at, format!("/metrics says {gauge}, /status {}", standing.state));
            }
        }
    }
    lies
}

/// Judges whether a server that was said to be down answered calls all the same.
pub(crate) fn judge_down(whose: &str, server: usize, readings: &[Reading], calls: &[Call]) -> Vec<Broken> {
    let mut lies = vec![];
    for reading in readings {
        let standing = &reading.standings[server];
        let from = (reading.until + GRACE).saturating_sub(standing.in_state);
        if standing.is_ready() || from >= reading.at {
            continue;
        }
        let first = calls.partition_point(|call| call.begun < from);
        let served = |call: &&Call| {
            let is_proof = call.told == Told::Right && call.tool.leaves_evidence();
            is_proof && call.ended.is_some_and(|ended| ended <= reading.at)
        };
        let within = calls[first..].iter().take_while(|call| call.begun < reading.at);
        if let Some(call) = { within }.find(served) {
            let what = format!(
                "at {:.3}s /status says {} for {:.3}s, but a call begun at {:.3}s was answered",
                reading.at.as_secs_f64(),
                standing.state,
                standing.in_state.as_secs_f64(),
                call.begun.as_secs_f64()
            );
            lies.push(Broken { promise: Promise::Status, whose: whose.into(), what });
        }
    }
    lies
}

/// Judges the count of restarts: each death that was seen had one, and none is taken back.
pub(crate) fn judge_restarts(
    whose: &str,
    server: usize,
    readings: &[Reading],
    deaths: u64,
) -> Option<Broken> {
    let told: Vec<u64> = readings.iter().map(|reading| reading.standings[server].restarts).collect();
    let last = told.last().copied()?;
    let what = match told.is_sorted() {
        false => "the count of restarts in /status falls".to_owned(),
        true if last < deaths => format!("/status tells {last} restarts after {deaths} deaths"),
        true => return None,
    };
    Some(Broken { promise: Promise::Status, whose: whose.into(), what })
}

#[cfg(test)]
mod tests;
