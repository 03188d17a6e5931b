//! What may happen to a server, or to the way to it.

use std::time::Duration;

use fastrand::Rng;
use regrow::core::Fault;
use regrow_testkit::remote::Path;
use regrow_testkit::script::{Act, status};

use super::TOOLS;
use super::history::called;
use crate::fake::Fake;

const RUBBISH: [&str; 3] = ["rubbish\n", "{\"jsonrpc\":\"2.0\",\"id\":1,", "\0\n[]\n{}\n"];

/// Something happens, while so many clients have come; and what it was.
pub fn gust(fake: &Fake, random: &mut Rng, clients: u32) -> &'static str {
    let length = Duration::from_millis(random.u64(..3000));
    match random.u8(..14) {
        0 | 1 => {
            fake.die();
            "dies"
        }
        2 => {
            let mute = &mut fake.world().is_mute;
            *mute ^= true;
            if *mute { "says nothing" } else { "speaks" }
        }
        3 => {
            (1..=clients).for_each(|n| fake.updates(&format!("{}://file/{}", fake.name, called(n))));
            "tells of all resources"
        }
        4 => {
            fake.world().start_takes = length;
            "starts more slowly"
        }
        5 => {
            fake.changes_tools(if random.bool() { &TOOLS } else { &TOOLS[1..] });
            "has other tools"
        }
        6 | 7 => {
            calm(fake);
            "is well"
        }
        _ if fake.is_remote() => on_the_way(fake, random, length),
        _ => to_its_pipes(fake, random),
    }
}

fn to_its_pipes(fake: &Fake, random: &mut Rng) -> &'static str {
    match random.u8(..4) {
        0 => {
            fake.world().is_broken = true;
            "cannot be started"
        }
        1 => {
            fake.act(&Act::CloseOutput);
            "closes its output"
        }
        _ => {
            let rubbish = RUBBISH[random.usize(..RUBBISH.len())];
            fake.act(&Act::Write(rubbish.to_owned()));
            "writes rubbish"
        }
    }
}

fn on_the_way(fake: &Fake, random: &mut Rng, length: Duration) -> &'static str {
    let wires = fake.wires();
    match random.u8(..6) {
        0 => {
            fake.set_path(Path::Down);
            "is refused"
        }
        1 => {
            fake.set_path(Path::Partitioned);
            "cannot be heard"
        }
        2 => {
            wires.iter().for_each(|wire| wire.cut());
            "is cut off"
        }
        3 => {
            wires.iter().for_each(|wire| wire.forget());
            "forgets all sessions"
        }
        4 => {
            let refusals = [status(503), status(404), Fault::Unauthorized { code: 401 }];
            let refusal = &refusals[random.usize(..refusals.len())];
            wires.iter().for_each(|wire| wire.world().refuses = Some(refusal.clone()));
            "refuses everything"
        }
        _ => {
            wires.iter().for_each(|wire| wire.world().latency = length / 5);
            "is far away"
        }
    }
}

/// Nothing is wrong with it from now on, until something happens again.
pub fn calm(fake: &Fake) {
    {
        let mut world = fake.world();
        (world.is_broken, world.is_mute, world.start_takes) = (false, false, Duration::ZERO);
        world.lists.insert("tools/list", TOOLS.map(str::to_owned).into());
    }
    fake.set_path(Path::Up);
    for wire in fake.wires() {
        wire.world().latency = Duration::ZERO;
        wire.mend();
    }
}
