//! `regrow demo`: a server dies without Regrow and behind `regrow wrap`, and you see what its caller notices.

mod acts;
mod show;
mod stage;
mod summary;
mod teller;

use std::io;
use std::sync::Arc;

use crate::arguments::Demo;
use crate::signals::{ENDED_BY_SIGNAL, told_to_end};
use crate::table::print;
use crate::terminal::Screen;
use crate::{DONE, SERVER_FAILED, WE_FAILED};
use show::Show;
use stage::{Setting, Stage};
use summary::Summary;
use teller::Teller;

pub(crate) fn run(options: Demo) -> u8 {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error),
    };
    runtime.block_on(demo(options)).unwrap_or_else(|error| failed(&error))
}

async fn demo(options: Demo) -> io::Result<u8> {
    let told_to_end = told_to_end()?;
    let teller = Arc::new(if options.json {
        Teller::new(io::stderr(), Screen::stderr())
    } else {
        Teller::new(io::stdout(), Screen::stdout())
    });
    teller.prologue(&stage::OPTIONS);
    let mut show = Show::new(Stage::start(Setting::WithRegrow, teller.clone())?, teller.clone());
    let mut without = None;
    let wrap_ended = show.stage.watch_end();
    let left_early = tokio::select! {
        biased;
        signal = told_to_end => Some(ENDED_BY_SIGNAL + signal),
        () = teller.reader_left(), if !options.json => Some(DONE),
        played = acts::play(&mut show, &mut without, options.all) => {
            played?;
            None
        }
        () = wrap_ended => {
            show.break_promise("`regrow wrap` outlives its servers");
            None
        }
    };
    if let Some(without) = without {
        without.end().await; // It was interrupted.
    }
    let summary = show.end().await;
    if let Some(code) = left_early {
        return Ok(code);
    }
    teller.epilogue(&summary);
    if options.json {
        print(&format!("{:#}\n", summary.json()))?;
    }
    Ok(code(&summary))
}

fn code(summary: &Summary) -> u8 {
    if summary.broken().is_empty() { DONE } else { SERVER_FAILED }
}

fn failed(error: &io::Error) -> u8 {
    eprintln!("regrow: cannot run the demo: {error}");
    WE_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_promise_is_a_failure() {
        let kept = Summary { calls: 3, answered: 2, told: 1, orphans: Some(0), ..Summary::default() };
        assert_eq!(code(&kept), DONE);
        let promise = vec!["it is answered".to_owned()];
        for broken in [
            Summary { calls: 4, ..kept.clone() },
            Summary { ran_twice: 1, ..kept.clone() },
            Summary { orphans: Some(1), ..kept.clone() },
            Summary { broken_promises: promise, ..kept.clone() },
        ] {
            assert_eq!(code(&broken), SERVER_FAILED, "{broken:?}");
        }
    }
}
