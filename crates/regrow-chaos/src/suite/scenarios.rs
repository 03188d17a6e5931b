//! The scenarios, each with its story.

use super::Transport::{self, Http, Stdio};
use super::scenario::{Scenario, Start};
use super::stage::{Stage, Step};
use super::stories::{deaths, endings, hangs, pipes, remote};

/// The first of all: nothing goes wrong.
pub(super) const HEALTHY: &str = "healthy";

const BOTH: &[Transport] = &[Stdio, Http];
const PIPES: &[Transport] = &[Stdio];
const REMOTE: &[Transport] = &[Http];

/// What is done in a scenario.
pub(super) type Story = fn(&mut Stage<'_>) -> Step;

const fn scenario(
    name: &'static str,
    numbers: &'static str,
    about: &'static str,
    transports: &'static [Transport],
    plan: &'static str,
    story: Story,
) -> (Scenario, Story) {
    (Scenario { name, numbers, about, transports, start: Start::Plain, plan }, story)
}

const fn started(start: Start, (scenario, story): (Scenario, Story)) -> (Scenario, Story) {
    (Scenario { start, ..scenario }, story)
}

/// All scenarios, in the order of reports.
pub(super) static ALL: &[(Scenario, Story)] = &[
    scenario(HEALTHY, "-", "nothing goes wrong", BOTH, "", pipes::healthy),
    // Servers that are processes.
    scenario("killed-idle", "1", "SIGKILL while no call is made", PIPES, "", deaths::killed_idle),
    scenario("exits-idle", "2", "exit 0 while no call is made", PIPES, "", deaths::exits_idle),
    scenario("dies-in-call", "3", "SIGKILL while a tool runs", PIPES, "", deaths::dies_in_call),
    scenario("dead-on-arrival", "5", "dead just before a call", PIPES, "", deaths::dead_on_arrival),
    scenario("away", "52", "cannot start for 2 s after it was killed", PIPES, "", deaths::away),
    scenario("crash-loop", "6", "dies after every handshake for a while", PIPES, "", deaths::crash_loop),
    started(
        Start::Missing,
        scenario("missing-program", "7", "there is no such program", PIPES, "", pipes::missing_program),
    ),
    scenario("no-handshake", "8", "never answers the handshake", PIPES, "never-answer", hangs::no_handshake),
    scenario("hung", "9", "SIGSTOP: alive, and silent", PIPES, "", hangs::hung),
    scenario("slow-tool", "10", "a tool slower than its deadline", BOTH, "", hangs::slow_tool),
    scenario("many-calls", "11", "SIGKILL while 20 calls run", PIPES, "", deaths::many_calls),
    started(
        Start::Shell,
        scenario(
            "wrapper",
            "13",
            "a server under `sh -c`, with a helper, is killed",
            PIPES,
            "helper=free",
            deaths::killed_idle,
        ),
    ),
    scenario(
        "held-pipe",
        "13",
        "dies in a call while a helper holds its pipes open",
        PIPES,
        "helper",
        deaths::dies_in_call,
    ),
    scenario(
        "closed-stdout",
        "14",
        "closes its output in a call, and lives on",
        PIPES,
        "",
        pipes::closed_stdout,
    ),
    scenario("half-line", "14", "writes half an answer and exits", PIPES, "", pipes::half_line),
    scenario(
        "odd-messages",
        "14",
        "garbage, double answers, answers to nobody",
        BOTH,
        "",
        pipes::odd_messages,
    ),
    scenario("stderr-flood", "15", "20 MB on its standard error", PIPES, "", pipes::stderr_flood),
    scenario("input-ends", "17", "the program's input ends", PIPES, "", endings::input_ends),
    scenario("told-to-end", "17", "the program gets SIGTERM", PIPES, "", endings::told_to_end),
    scenario(
        "killed-itself",
        "17",
        "the program gets SIGKILL; its server ignores the end of its input",
        PIPES,
        "ignore-eof helper=free",
        endings::killed_itself,
    ),
    scenario(
        "stubborn",
        "18",
        "ignores the end of its input, and SIGTERM",
        PIPES,
        "ignore-eof ignore-term helper=free",
        endings::stubborn,
    ),
    scenario("retires", "19", "exits 0 on its own after every two calls", PIPES, "", deaths::retires),
    scenario("tool-errors", "20", "tools that fail, ten times", BOTH, "", pipes::tool_errors),
    scenario("changed-tools", "22", "offers another tool after a restart", BOTH, "", deaths::changed_tools),
    scenario("slow-start", "24", "4 s before its first byte", PIPES, "slow-start=4s", hangs::slow_start),
    // Servers that are reached over HTTP.
    started(
        Start::Missing,
        scenario("down-at-start", "27", "nobody listens at first", REMOTE, "", remote::down_at_start),
    ),
    scenario("remote-killed-idle", "28", "killed while no call is made", REMOTE, "", remote::killed_idle),
    scenario("remote-killed-in-call", "28", "killed while a tool runs", REMOTE, "", remote::killed_in_call),
    scenario("remote-away", "52", "nobody listens for 2 s", REMOTE, "", remote::away),
    scenario("restarted", "29", "restarted; its session is forgotten", REMOTE, "", remote::restarted),
    scenario("forgotten-404", "29", "404 to a session that it knew", REMOTE, "no-get", remote::forgotten_404),
    scenario("forgotten-400", "29", "400 to a session that it knew", REMOTE, "no-get", remote::forgotten_400),
    scenario("busy", "31", "429 with Retry-After, once", REMOTE, "", remote::busy),
    scenario("bad-gateway", "31", "502, once", REMOTE, "", remote::bad_gateway),
    scenario("cut-stream", "32", "the stream of an answer is cut", REMOTE, "answer=sse", remote::cut_stream),
    scenario("blackhole", "33", "packets are dropped", REMOTE, "", remote::blackhole),
    scenario("unauthorized", "35", "401 to everything", REMOTE, "need-token=none", remote::unauthorized),
    scenario(
        "web-page",
        "36",
        "a web page where the server should be",
        REMOTE,
        "status=200 body=html",
        remote::web_page,
    ),
    scenario("slow-drip", "37", "an answer byte by byte", REMOTE, "", remote::slow_drip),
    scenario("forgets-often", "38", "forgets the session every two calls", REMOTE, "", remote::forgets_often),
];
