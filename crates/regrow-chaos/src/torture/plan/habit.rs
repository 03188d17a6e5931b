//! How a server lives, whatever ends it.

/// How the next server lives, whatever ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// As it should.
    Plain,
    /// With a helper that holds its pipes.
    Helper,
    /// With a helper that holds nothing.
    FreeHelper,
    /// With a helper in a session of its own that holds its pipes.
    Setsid,
    /// With a helper in a session of its own that holds nothing.
    FreeSetsid,
    /// Deaf to SIGTERM and to the end of its input.
    Stubborn,
    /// Says much on standard error before it reads.
    Floods,
    /// Says what is no message before it reads.
    Babbles,
    /// Breaks when it is asked to end.
    Noisy,
}

pub(super) const HABITS: [Habit; 9] = [
    Habit::Plain,
    Habit::Helper,
    Habit::FreeHelper,
    Habit::Setsid,
    Habit::FreeSetsid,
    Habit::Stubborn,
    Habit::Floods,
    Habit::Babbles,
    Habit::Noisy,
];

impl Habit {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Habit::Plain => "plain",
            Habit::Helper => "helper",
            Habit::FreeHelper => "free helper",
            Habit::Setsid => "setsid helper",
            Habit::FreeSetsid => "free setsid helper",
            Habit::Stubborn => "stubborn",
            Habit::Floods => "floods stderr",
            Habit::Babbles => "babbles",
            Habit::Noisy => "noisy end",
        }
    }

    /// As items of a server's plan.
    pub(in crate::torture) fn items(self) -> &'static str {
        match self {
            Habit::Plain => "",
            Habit::Helper => "helper",
            Habit::FreeHelper => "helper=free",
            Habit::Setsid => "helper-setsid",
            Habit::FreeSetsid => "helper-setsid=free",
            Habit::Stubborn => "ignore-term ignore-eof",
            Habit::Floods => "flood-stderr=2MB",
            Habit::Babbles => "garbage-on-start",
            Habit::Noisy => "noisy-teardown",
        }
    }
}
