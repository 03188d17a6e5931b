//! A terminal with a person at it.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A byte that no terminal shows.
pub const INVISIBLE: u8 = 0;

pub struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    pub seen: String,
}

impl Terminal {
    /// Starts a program at it: all three standard streams, or only errors, with output in a pipe.
    pub fn start(command: &mut Command, output_too: bool) -> (Terminal, Child) {
        Terminal::start_sized(command, output_too, 80, 24)
    }

    /// The same on a terminal of this size.
    pub fn start_sized(
        command: &mut Command,
        output_too: bool,
        columns: u16,
        rows: u16,
    ) -> (Terminal, Child) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
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
                if length == 0 || shown.send(visible(&bytes[..length])).is_err() {
                    return;
                }
            }
        });
        (Terminal { keyboard, screen, seen: String::new() }, child)
    }

    /// What another program at it writes to.
    pub fn output(&self) -> File {
        let name = ptsname(&self.keyboard, vec![]).unwrap();
        OpenOptions::new().write(true).open(std::ffi::OsStr::from_bytes(name.as_bytes())).unwrap()
    }

    pub fn write(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until this is seen, or until nobody writes any more.
    pub fn read_until(&mut self, wanted: &str) {
        self.read_until_times(wanted, 1);
    }

    /// Reads until this is seen this many times.
    pub fn read_until_times(&mut self, wanted: &str, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.seen.matches(wanted).count() < times {
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

fn visible(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| *byte != INVISIBLE).collect()
}

/// The lines that a terminal shows after this was written to it, without colours. A line longer than the terminal is a failure, since it would
/// be wrapped or cut.
pub fn screen(written: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![vec![]];
    let (mut row, mut column) = (0, 0);
    let mut rest = written.chars();
    while let Some(character) = rest.next() {
        match character {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(vec![]);
                }
            }
            '\x1b' => {
                assert_eq!(rest.next(), Some('['), "{written:?}");
                let parameters: String = rest.clone().take_while(|c| !c.is_ascii_alphabetic()).collect();
                let command = rest.nth(parameters.chars().count());
                match command.unwrap_or_default() {
                    'A' => row -= parameters.parse::<usize>().unwrap(),
                    // The cursor stays on the last character of a full line.
                    'K' => lines[row].truncate(column.min(columns - 1)),
                    'J' => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    'm' | 'h' | 'l' => {}
                    _ => panic!("unknown: {parameters:?} {command:?}"),
                }
            }
            _ => {
                assert!(column < columns, "too long: {:?}", lines[row].iter().collect::<String>());
                let length = lines[row].len().max(column + 1);
                lines[row].resize(length, ' ');
                lines[row][column] = character;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}
