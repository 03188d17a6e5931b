//! What more servers, clients, tools, calls in flight and subscriptions cost: the work for each must stay the same.

mod points;
mod table;

use std::fs;
use std::io;
use std::time::Duration;

use tokio::time::timeout;

use crate::contestant::regrow_path;
use crate::options::Growth;
use points::Point;

/// A point that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(60);

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    Servers,
    Clients,
    Tools,
    InFlight,
    Subscriptions,
}

impl Dimension {
    const ALL: [Dimension; 5] = [
        Dimension::Servers,
        Dimension::Clients,
        Dimension::Tools,
        Dimension::InFlight,
        Dimension::Subscriptions,
    ];

    fn sizes(self) -> &'static [usize] {
        match self {
            Dimension::Servers => &[1, 10, 50, 100, 200],
            Dimension::Clients => &[1, 10, 100, 300, 1000],
            Dimension::Tools => &[10, 100, 1000, 3000, 10_000],
            Dimension::InFlight => &[1, 10, 100, 1000, 4000, 10_000],
            Dimension::Subscriptions => &[1, 10, 100, 300, 1000],
        }
    }

    fn title(self) -> &'static str {
        match self {
            Dimension::Servers => "servers behind serve",
            Dimension::Clients => "clients of serve",
            Dimension::Tools => "tools of a server behind serve",
            Dimension::InFlight => "calls in flight through wrap",
            Dimension::Subscriptions => "subscriptions through wrap",
        }
    }
}

pub(crate) fn run(options: &Growth) -> io::Result<()> {
    crate::measure::allow_many_sockets()?;
    fs::create_dir_all(&options.output)?; // Before the measurement, which takes long.
    let regrow = regrow_path(options.regrow.as_deref())?;
    let mut points: Vec<Point> = vec![];
    for dimension in Dimension::ALL {
        for &size in dimension.sizes() {
            let measured = crate::block_on(async {
                let point = timeout(LONGEST, points::measure(&regrow, dimension, size)).await;
                point.unwrap_or_else(|_| Err(io::Error::other("timed out")))
            });
            let explain = |error| io::Error::other(format!("{size} {}: {error}", dimension.title()));
            points.push(measured.map_err(explain)?);
        }
    }
    let text = table::table(&points);
    println!("{text}");
    fs::write(options.output.join("growth.md"), format!("# Growth\n\n{text}"))?;
    fs::write(options.output.join("growth.svg"), table::chart(&points))
}
