//! The scenarios: what goes wrong in each, with which server, and the story that is played.

use super::Transport::{self, Http, Stdio};
use super::scenario::{Scenario, Start};
use super::stage::{Stage, Step};
use super::stories::{deaths, endings, hangs, pipes, remote};

/// The first of all: nothing goes wrong.
pub(super) const HEALTHY: &str = "healthy";

/// What is done in a scenario.
type Story = fn(&mut Stage<'_>) -> Step;

/// A scenario with its story.
pub(super) struct Staged {
    pub(super) scenario: Scenario,
    pub(super) story: Story,
}

impl Staged {
    const fn plan(self, plan: &'static str) -> Staged {
        Staged { scenario: Scenario { plan, ..self.scenario }, ..self }
    }

    const fn start(self, start: Start) -> Staged {
        Staged { scenario: Scenario { start, ..self.scenario }, ..self }
    }
}

/// The scenarios with servers of this transport.
pub(super) fn staged(transport: Transport) -> impl Iterator<Item = &'static Staged> {
    ALL.iter().filter(move |staged| staged.scenario.transports.contains(&transport))
}

const fn new(
    transports: &'static [Transport],
    (name, numbers, what): (Text, Text, Text),
    story: Story,
) -> Staged {
    let scenario = Scenario { name, numbers, what, transports, start: Start::Plain, plan: "" };
    Staged { scenario, story }
}

type Text = &'static str;

const fn both(name: Text, numbers: Text, what: Text, story: Story) -> Staged {
    new(&[Stdio, Http], (name, numbers, what), story)
}

const fn process(name: Text, numbers: Text, what: Text, story: Story) -> Staged {
    new(&[Stdio], (name, numbers, what), story)
}

const fn remote(name: Text, numbers: Text, what: Text, story: Story) -> Staged {
    new(&[Http], (name, numbers, what), story)
}

/// All scenarios, in the order of reports.
static ALL: &[Staged] = &[
    both(HEALTHY, "-", "nothing goes wrong", pipes::healthy),
    // Servers that are processes.
    process("killed-idle", "1", "SIGKILL while no call is made", deaths::killed_idle),
    process("exits-idle", "2", "exit 0 while no call is made", deaths::exits_idle),
    process("dies-in-call", "3", "SIGKILL while a tool runs", deaths::dies_in_call),
    process("dead-on-arrival", "5", "dead just before a call", deaths::dead_on_arrival),
    process("away", "52", "cannot start for 2 s after it was killed", deaths::away),
    process("crash-loop", "6", "dies after every handshake for a while", deaths::crash_loop),
    process("missing-program", "7", "there is no such program", pipes::missing_program).start(Start::Missing),
    process("no-handshake", "8", "never answers the handshake", hangs::no_handshake).plan("never-answer"),
    process("hung", "9", "SIGSTOP: alive, and silent", hangs::hung),
    both("slow-tool", "10", "a tool slower than its deadline", hangs::slow_tool),
    process("many-calls", "11", "SIGKILL while 20 calls run", deaths::many_calls),
    process("wrapper", "13", "a server under `sh -c`, with a helper, is killed", deaths::killed_idle)
        .start(Start::Shell)
        .plan("helper=free"),
    process("held-pipe", "13", "dies in a call while a helper holds its pipes open", deaths::dies_in_call)
        .plan("helper"),
    process("closed-stdout", "14", "closes its output in a call, and lives on", pipes::closed_stdout),
    process("half-line", "14", "writes half an answer and exits", pipes::half_line),
    both("odd-messages", "14", "garbage, double answers, answers to nobody", pipes::odd_messages),
    process("stderr-flood", "15", "20 MB on its standard error", pipes::stderr_flood),
    process("input-ends", "17", "the program's input ends", endings::input_ends),
    process("told-to-end", "17", "the program gets SIGTERM", endings::told_to_end),
    process(
        "killed-itself",
        "17",
        "the program gets SIGKILL; its server ignores the end of its input",
        endings::killed_itself,
    )
    .plan("ignore-eof helper=free"),
    process("stubborn", "18", "ignores the end of its input, and SIGTERM", endings::stubborn)
        .plan("ignore-eof ignore-term helper=free"),
    process("retires", "19", "exits 0 on its own after every two calls", deaths::retires),
    both("tool-errors", "20", "tools that fail, ten times", pipes::tool_errors),
    both("changed-tools", "22", "offers another tool after a restart", deaths::changed_tools),
    process("slow-start", "24", "4 s before its first byte", hangs::slow_start).plan("slow-start=4s"),
    // Servers that are reached over HTTP.
    remote("down-at-start", "27", "nobody listens at first", remote::down_at_start).start(Start::Missing),
    remote("remote-killed-idle", "28", "killed while no call is made", remote::killed_idle),
    remote("remote-killed-in-call", "28", "killed while a tool runs", remote::killed_in_call),
    remote("remote-away", "52", "nobody listens for 2 s", remote::away),
    remote("restarted", "29", "restarted; its session is forgotten", remote::restarted),
    remote("forgotten-404", "29", "404 to a session that it knew", remote::forgotten_404).plan("no-get"),
    remote("forgotten-400", "29", "400 to a session that it knew", remote::forgotten_400).plan("no-get"),
    remote("busy", "31", "429 with Retry-After, once", remote::busy),
    remote("bad-gateway", "31", "502, once", remote::bad_gateway),
    remote("cut-stream", "32", "the stream of an answer is cut", remote::cut_stream).plan("answer=sse"),
    remote("blackhole", "33", "packets are dropped", remote::blackhole),
    remote("unauthorized", "35", "401 to everything", remote::unauthorized).plan("need-token=none"),
    remote("web-page", "36", "a web page where the server should be", remote::web_page)
        .plan("status=200 body=html"),
    remote("slow-drip", "37", "an answer byte by byte", remote::slow_drip),
    remote("forgets-often", "38", "forgets the session every two calls", remote::forgets_often),
];
