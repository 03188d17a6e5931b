//! A terminal with a person at it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

pub struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    pub seen: String,
}

impl Terminal {
    /// Starts a program at it: all three standard streams, or only errors, with output in a pipe.
    pub fn start(command: &mut Command, output_too: bool) -> (Terminal, Child) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, vec![]).unwrap();
        let path = std::ffi::OsStr::from_bytes(name.as_bytes());
        let slave = || OpenOptions::new().read(true).write(true).open(path).unwrap();
        command.stdin(slave()).stderr(slave());
        command.stdout(if output_too { Stdio::from(slave()) } else { Stdio::piped() });
        let child = command.spawn().unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()); // Lets go of the terminal.
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let (shown, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // It fails when nobody is left at the other end.
            while let Ok(length) = reader.read(&mut bytes) {
                if length == 0 || shown.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        (Terminal { keyboard, screen, seen: String::new() }, child)
    }

    pub fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until this is seen, or until nobody writes any more.
    pub fn read_until(&mut self, wanted: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.seen.contains(wanted) {
            match self.screen.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("never saw {wanted:?} in {:?}", self.seen),
            }
        }
    }

    /// Reads to the end.
    pub fn read_all(&mut self) {
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_secs(20)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}
