//! `regrow torture`: real servers fail in every way we know, behind `regrow wrap` and `regrow serve`, while it is checked what they
//! promise.

#[cfg(target_os = "linux")]
mod teller;

use crate::arguments::Torture;

#[cfg(target_os = "linux")]
pub(crate) fn run(options: Torture) -> u8 {
    linux::run(&options).unwrap_or_else(|error| {
        eprintln!("regrow: cannot torture: {error}");
        crate::WE_FAILED
    })
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: Torture) -> u8 {
    eprintln!("regrow: torture looks at processes through /proc, and so needs Linux");
    crate::WE_FAILED
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use regrow_chaos::torture::{self, Options, Report, Target};

    use super::teller::Teller;
    use crate::arguments::{self, Torture};
    use crate::signals::told_to_end;
    use crate::{DONE, SERVER_FAILED};

    /// Without a limit of any kind there are so many.
    const CYCLES: u64 = 1000;
    /// Nothing that we do keeps a server away for longer.
    const PATIENCE: Duration = Duration::from_secs(45);

    pub(super) fn run(options: &Torture) -> io::Result<u8> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Options {
            program: std::env::current_exe()?,
            target: match options.target {
                arguments::Target::Wrap => Target::Wrap,
                arguments::Target::Serve => Target::Serve,
                arguments::Target::All => Target::All,
            },
            cycles: options.cycles.or(options.time.is_none().then_some(CYCLES)),
            time: options.time,
            seed: options.seed.unwrap_or_else(new_seed),
            patience: PATIENCE,
        };
        let teller = Teller::new(&asked);
        let told_to_end = runtime.block_on(async { told_to_end() })?;
        let torturing = {
            let stop = stop.clone();
            let (ended, end) = tokio::sync::oneshot::channel();
            let work = move || {
                let outcome = torture::run(&asked, &stop, &|progress| teller.tell(progress));
                teller.end();
                let _ = ended.send(()); // Who waits for it joins us next.
                outcome
            };
            let thread = thread::Builder::new().name("torture".into()).spawn(work)?;
            runtime.block_on(async {
                tokio::select! {
                    _ = end => {}
                    _ = told_to_end => eprintln!("\nregrow: told to end; finishing the cycles that run"),
                }
            });
            thread
        };
        // It ends by itself if nobody has told us; if somebody has, the cycles that run are finished.
        stop.store(true, Ordering::SeqCst);
        let outcome = torturing.join().map_err(|_| io::Error::other("the torture panicked"))??;
        let report = Report::new(&outcome);
        if let Some(folder) = &options.report {
            report.write(folder)?;
            eprintln!("regrow: the report is in {}", folder.join("torture.html").display());
        }
        print(&if options.json { format!("{:#}\n", report.json()) } else { report.markdown() })?;
        Ok(if outcome.broken.is_empty() { DONE } else { SERVER_FAILED })
    }

    fn new_seed() -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.as_nanos() as u64 % 1_000_000_007
    }

    /// A reader that has left is no failure.
    fn print(text: &str) -> io::Result<()> {
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written,
        }
    }
}
