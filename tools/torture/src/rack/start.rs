//! How a rack is set up: its servers, and the program in front of them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Ending, Rack};
use crate::Shared;
use crate::face::Hand;
use crate::far::{Far, LIFE};
use crate::history::History;
use crate::lane::{CALL_TIMEOUT, LANES, Lane, Served, Setup, Way};
use crate::operator::{Operator, Watched};
use crate::plan::Place;
use crate::serve::{Gateway, Guest};
use crate::stalls::Stalls;
use crate::system::MARK;
use crate::wrap::Wrap;
use regrow_chaos::program::clean;
use regrow_chaos::sync::wait_until;

/// Where a program and its servers are started.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) program: &'a Path,
    pub(crate) folder: &'a Path,
    pub(crate) shared: &'a Shared<'a>,
}

/// A server, before there is a lane to it.
struct Site {
    number: usize,
    setup: Setup,
    mark: String,
    far: Far,
}

impl Ground<'_> {
    fn site(&self, number: usize) -> io::Result<Site> {
        let (setup, mark) = (LANES[number], format!("{}-{number}", self.shared.mark));
        let folder: PathBuf = self.folder.join(format!("lane-{number}"));
        let far = setup.far(&folder, &mark, self.program)?;
        Ok(Site { number, setup, mark, far })
    }
}

/// That of a call, as it is written in options.
fn deadline() -> String {
    format!("{}s", CALL_TIMEOUT.as_secs())
}

impl<'a> Rack<'a> {
    /// One `regrow wrap` in front of one server.
    pub(crate) fn wrap(number: usize, ground: &Ground<'a>) -> io::Result<Rack<'a>> {
        let site = ground.site(number)?;
        let Way::Wrap(options) = site.setup.way else { return Err(io::Error::other("not a lane of wrap")) };
        let mut command = clean(ground.program);
        command.args(["wrap", "--name", &format!("lane-{number}"), "--call-timeout", &deadline()]);
        command.args(["--connect-timeout", "30s", "--safe-tool", "lookup"]).args(options);
        let url = site.far.url();
        match &url {
            Some(url) => command.args(["--reach-timeout", "2s", "--no-cache", url]),
            None => command.arg("--").arg(ground.program).arg("chaos-server"),
        };
        command.env(MARK, &site.mark).env("CHAOS_DIR", site.far.folder()).env("NO_PROXY", "*");
        // The guard and the server; a remote server is nobody's child, and needs no guard.
        let children = if url.is_none() { 2 } else { 0 };
        let log_is_whole = url.is_some() || options.contains(&"keep");
        let history = Arc::new(History::new(ground.shared.began));
        let face = Arc::new(Wrap::start(&mut command, children, log_is_whole, &history)?);
        let hand = Hand { history, face, modern: site.setup.modern_client };
        let lane = Lane::new(number, site.setup, site.mark, hand, site.far, ground.shared);
        let endings = [Ending::Left, Ending::Told, Ending::Killed];
        Ok(Rack {
            name: lane.name(),
            shared: ground.shared,
            lanes: vec![lane],
            ending: endings[(ground.shared.seed.wrapping_add(number as u64) % 3) as usize],
            operator: None,
            waits: Stalls::default(),
            broken: vec![],
        })
    }

    /// One `regrow serve` in front of all servers of such lanes.
    pub(crate) fn serve(ground: &Ground<'a>) -> io::Result<Rack<'a>> {
        let is_served = |number: &usize| matches!(LANES[*number].way, Way::Serve(_));
        let sites = (0..LANES.len()).filter(is_served).map(|number| ground.site(number));
        let sites = sites.collect::<io::Result<Vec<Site>>>()?;
        let mark = format!("{}-serve", ground.shared.mark);
        let config = config(ground, &sites);
        let gateway = Arc::new(Gateway::start(ground.program, ground.folder, &mark, &config)?);
        let watched = |site: &Site| Watched {
            name: server_name(site.number),
            mark: site.far.url().is_none().then(|| site.mark.clone()),
            processes: match site.setup.place {
                Place::Process => 1,
                Place::Private => 2, // One for its client, and one for the lists.
                Place::Sessions | Place::Stateless => 0,
            },
        };
        let watched = sites.iter().map(watched).collect();
        let operator = Operator::new(gateway.clone(), watched, ground.shared.began);
        // Nobody calls before all are known: what stands by then belongs to no client.
        wait_until(ground.shared.patience, || operator.is_calm() || gateway.program.exit().is_some());
        let lane = |site: Site| {
            let history = Arc::new(History::new(ground.shared.began));
            let face = Arc::new(Guest::new(&gateway, &history, server_name(site.number), &site.setup));
            let hand = Hand { history, face, modern: site.setup.modern_client };
            Lane::new(site.number, site.setup, site.mark, hand, site.far, ground.shared)
        };
        Ok(Rack {
            name: "serve".into(),
            shared: ground.shared,
            lanes: sites.into_iter().map(lane).collect(),
            ending: if ground.shared.seed.is_multiple_of(3) { Ending::Killed } else { Ending::Told },
            operator: Some(operator),
            waits: Stalls::default(),
            broken: vec![],
        })
    }
}

fn server_name(lane: usize) -> String {
    format!("lane-{lane}")
}

fn config(ground: &Ground<'_>, sites: &[Site]) -> Value {
    let mut servers = Map::new();
    for site in sites {
        let Way::Serve(Served { options, .. }) = site.setup.way else { continue };
        let options: Map<String, Value> =
            options.iter().map(|(name, value)| (String::from(*name), Value::from(*value))).collect();
        let server = match site.far.url() {
            Some(url) => json!({ "url": url, "regrow": options }),
            None => json!({
                "command": ground.program,
                "args": ["chaos-server"],
                "env": {
                    "CHAOS": site.setup.server_plan,
                    "CHAOS_DIR": site.far.folder(),
                    "CHAOS_LIFE": LIFE,
                    MARK: site.mark,
                },
                "regrow": options,
            }),
        };
        servers.insert(server_name(site.number), server);
    }
    let all = json!({
        "callTimeout": deadline(),
        "connectTimeout": "30s",
        "reachTimeout": "2s",
        "safeTools": ["lookup"],
    });
    json!({ "mcpServers": servers, "regrow": all })
}
