//! What the lanes are.

use std::io;
use std::path::Path;

use crate::far::Far;
use crate::plan::Place;

/// What a lane is.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) place: Place,
    pub(crate) modern_client: bool,
    /// The plan that the server has all its life.
    pub(crate) server_plan: &'static str,
    pub(crate) way: Way,
}

/// How callers get to the server.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// Through a `regrow wrap` of its own, with these options more.
    Wrap(&'static [&'static str]),
    /// Through the one `regrow serve` of all such lanes.
    Serve(Served),
}

/// One server of several.
#[derive(Clone, Copy)]
pub(crate) struct Served {
    /// It is called at the address of all servers, rather than at its own.
    pub(crate) together: bool,
    /// Nothing is done to it, and it must not notice what is done to the others.
    pub(crate) spared: bool,
    /// Its options in the configuration.
    pub(crate) options: &'static [(&'static str, &'static str)],
}

const LEGACY: &str = "refuse-discover";
const MODERN: &str = "modern-only";
const ALONE: Served = Served { together: false, spared: false, options: &[] };
const TOGETHER: Served = Served { together: true, ..ALONE };
/// It is not hit, so that nothing but others could make it late; that is judged by the clock, not by its deadline.
const SPARED: Served = Served { spared: true, options: &[("callTimeout", "60s")], ..ALONE };

/// The lanes, from the first; they differ in place, eras and options.
pub(crate) const LANES: [Setup; 13] = {
    use Place::{Private, Process, Sessions, Stateless};
    use Way::{Serve, Wrap};
    const fn lane(place: Place, modern_client: bool, server_plan: &'static str, way: Way) -> Setup {
        Setup { place, modern_client, server_plan, way }
    }
    [
        lane(Process, false, "", Wrap(&[])),
        lane(Sessions, false, LEGACY, Wrap(&[])),
        lane(Process, true, "", Wrap(&["--stderr", "keep", "--budget", "1000000/1"])),
        lane(Stateless, true, MODERN, Wrap(&[])),
        lane(Process, false, "", Wrap(&["--stderr", "keep"])),
        lane(Stateless, false, MODERN, Wrap(&[])),
        lane(Process, false, LEGACY, Serve(TOGETHER)),
        lane(Process, true, "", Serve(Served { options: &[("budget", "1000000/1")], ..ALONE })),
        lane(Private, false, LEGACY, Serve(Served { options: &[("sessions", "private")], ..ALONE })),
        lane(Sessions, true, LEGACY, Serve(TOGETHER)),
        lane(Stateless, false, MODERN, Serve(ALONE)),
        lane(Process, false, LEGACY, Serve(SPARED)),
        lane(Stateless, true, MODERN, Serve(Served { together: true, ..SPARED })),
    ]
};

impl Setup {
    pub(crate) fn far(&self, folder: &Path, mark: &str, program: &Path) -> io::Result<Far> {
        match self.place {
            Place::Process | Place::Private => Far::process(folder, mark),
            Place::Sessions | Place::Stateless => Far::remote(folder, mark, program, self.server_plan),
        }
    }

    /// Whether nothing is done to its server.
    pub(crate) fn is_spared(&self) -> bool {
        matches!(self.way, Way::Serve(served) if served.spared)
    }
}
