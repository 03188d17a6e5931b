//! How the program under test itself comes to its end, and what it leaves.

use std::time::Duration;

use rustix::process::Signal;

use crate::processes::signal;
use crate::suite::stage::{Stage, Step};

/// Hosts kill what has not ended by then.
const END: Duration = Duration::from_secs(5);
/// A stubborn server has to be ended by force, step by step.
const BY_FORCE: Duration = Duration::from_secs(15);

pub(crate) fn input_ends(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.driver.leave();
    stage.nothing_left("nothing is left when its input has ended", END);
    Ok(())
}

pub(crate) fn told_to_end(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    signal(stage.subject(), Signal::TERM);
    stage.nothing_left("nothing is left after SIGTERM", END);
    Ok(())
}

pub(crate) fn killed_itself(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    signal(stage.subject(), Signal::KILL);
    stage.nothing_left("nothing is left after SIGKILL", END);
    Ok(())
}

pub(crate) fn stubborn(stage: &mut Stage<'_>) -> Step {
    stage.connect()?;
    stage.leave("a server that ignores its end is ended by force", BY_FORCE);
    Ok(())
}
