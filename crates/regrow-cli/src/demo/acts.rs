//! The acts: one way to lose a server each, and what is promised about it.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::show::Show;
use super::stage::CALL_TIMEOUT;
use super::summary::length;

/// A call is judged from outside, by the clock of a process that may itself be kept waiting: a machine that compiles
/// beside us has been seen to stall for half a second.
const TOLERANCE: Duration = Duration::from_secs(1);
/// What happens within this is at once; the call itself would take longer.
const AT_ONCE: Duration = Duration::from_secs(1);
/// A call that is to be interrupted would take so long, which is more than its deadline allows.
const LONG: Duration = Duration::from_secs(5);
/// A call that is to be waited for.
const SHORT: Duration = Duration::from_millis(600);
/// Within this, `regrow wrap` has heard a signal. Nothing in its log says so.
const HEARD: Duration = Duration::from_millis(100);

/// The faults that every user meets, each without Regrow first; or every way to lose a server that we know.
pub(super) async fn play(show: &mut Show, without: &mut Option<Show>, all: bool) -> io::Result<()> {
    if !show.stage.shake_hands().await {
        show.break_promise("the server is started");
        return Ok(());
    }
    killed_while_idle(show, without).await?;
    killed_in_a_write(show, without).await?;
    hung(show, without).await?;
    if all {
        killed_in_a_safe_call(show).await;
        ten_at_once(show).await;
        restarted_as_planned(show).await;
        ended_by_itself(show).await;
    }
    Ok(())
}

/// Begins an act with a server that has nothing before it. It is kept by the caller, who ends it, however the demo ends.
async fn begin<'a>(show: &mut Show, without: &'a mut Option<Show>, title: &str) -> io::Result<&'a mut Show> {
    show.act(title).await;
    let without = without.insert(show.without_regrow()?);
    if !without.stage.shake_hands().await {
        show.break_promise("the server is started without regrow");
    }
    Ok(without)
}

async fn with_regrow(show: &mut Show, without: &mut Option<Show>) {
    if let Some(without) = without.take() {
        show.with_regrow(without).await;
    }
}

async fn killed_while_idle(show: &mut Show, without: &mut Option<Show>) -> io::Result<()> {
    let alone = begin(show, without, "The server is killed while nothing runs").await?;
    alone.echo("hello").await;
    alone.kill();
    alone.echo("still there?").await;
    with_regrow(show, without).await;

    let first = show.echo("hello").await;
    show.promise(first.is_some(), "a call gets the same response as without regrow", "");
    let death = show.kill();
    let noticed = show.noticed(&death).await;
    let answer = show.echo("still there?").await;
    let recovered = show.recovered(&death, answer.as_ref()).await;
    show.promise(noticed.is_some(), "its death is noticed without a call", &after(noticed));
    show.promise(recovered.is_some(), "the next call succeeds", &after(recovered));
    Ok(())
}

async fn killed_in_a_write(show: &mut Show, without: &mut Option<Show>) -> io::Result<()> {
    let alone = begin(show, without, "It is killed while a call writes").await?;
    let call = alone.write_begun(LONG).await;
    alone.kill();
    alone.answer(call).await;
    alone.echo("did it run?").await;
    with_regrow(show, without).await;

    let (call, key) = show.write(LONG);
    show.stage.journal_shows(|journal| journal.runs_with("count", &key) > 0).await;
    let death = show.kill();
    let told = show.answer(call).await;
    let told_after = told.as_ref().map(|told| told.at - death.at);
    show.noticed(&death).await;
    let answer = show.echo("and now?").await;
    let recovered = show.recovered(&death, answer.as_ref()).await;
    let truthful = told.is_some_and(|told| !told.from_server && told.text.contains("It may have run"));
    let at_once = told_after.is_some_and(|time| time < AT_ONCE);
    show.promise(
        truthful && at_once,
        "the caller gets an error at once: it may have run",
        &after(told_after),
    );
    let runs = show.stage.journal().runs_with("count", &key);
    show.promise(runs == 1, "it ran once", ", by the server's journal");
    show.promise(recovered.is_some(), "the next call succeeds", &after(recovered));
    Ok(())
}

async fn killed_in_a_safe_call(show: &mut Show) {
    show.act("It dies in a call that was declared safe (--safe-tool lookup)").await;
    let (call, death) = show.deadly_call("lookup", json!({ "key": "price", "die_times": 1 }));
    let answer = show.answer(call).await.filter(|answer| answer.from_server);
    show.noticed(&death).await;
    let recovered = show.recovered(&death, answer.as_ref()).await;
    let runs = show.stage.journal().runs_with("lookup", "price");
    show.promise(
        recovered.is_some() && runs == 2,
        "it is retried, and its caller notices nothing",
        &after(recovered),
    );
}

async fn ten_at_once(show: &mut Show) {
    show.act("It is killed, and ten calls arrive at that moment").await;
    let starts = show.stage.journal().starts();
    let death = show.kill();
    let (mut first, mut answered, mut told) = (None, 0, 0);
    let mut runs_fit = true;
    for (call, key) in show.writes(10) {
        let Some(answer) = show.answer_quietly(call).await else { continue };
        let runs = show.stage.journal().runs_with("count", &key);
        if answer.from_server {
            answered += 1;
            runs_fit &= runs == 1;
            first.get_or_insert(answer);
        } else {
            told += 1;
            runs_fit &= runs == 0 || answer.text.contains("It may have run");
            if told == 1 {
                show.told(&answer); // The others are told the same.
            }
        }
    }
    show.noticed(&death).await;
    if first.is_none() {
        // The dying server may have read all ten, so none of them was sent again.
        first = show.echo("and now?").await;
    }
    let recovered = show.recovered(&death, first.as_ref()).await;
    let how = format!(": {answered} responses, {told} errors");
    show.promise(answered + told == 10 && runs_fit, "each has one end, and ran at most once", &how);
    let restarts = show.stage.journal().starts() - starts;
    show.promise(restarts == 1, "one restart serves them all", &after(recovered));
}

async fn hung(show: &mut Show, without: &mut Option<Show>) -> io::Result<()> {
    let alone = begin(show, without, "It hangs: alive, but silent").await?;
    let call = alone.write_begun(LONG).await;
    alone.freeze();
    alone.answer(call).await;
    with_regrow(show, without).await;

    let call = show.write_begun(LONG).await;
    let called = call.at;
    let from = show.freeze().from;
    let told = show.answer(call).await.filter(|told| !told.from_server);
    let told_after = told.as_ref().map(|told| told.at - called);
    let given_up = show.stage.logged(from, "the server did not respond").await;
    let answer = show.echo("awake again?").await;
    show.restarted(from).await;
    let in_time = told_after.is_some_and(|time| time < CALL_TIMEOUT + TOLERANCE);
    show.promise(in_time, "the call times out at its deadline (2s)", &after(told_after));
    let replaced = answer.filter(|_| given_up.is_some()).map(|answer| answer.at - called);
    show.promise(replaced.is_some(), "it is restarted, as it does not respond", &after(replaced));
    Ok(())
}

async fn restarted_as_planned(show: &mut Show) {
    show.act("It is restarted on purpose, during a call").await;
    let running = show.write_begun(SHORT).await;
    let from = show.ask_for_restart().from;
    sleep(HEARD).await;
    let next = show.call("echo", json!({ "text": "I can wait" }));
    let finished = show.answer(running).await.filter(|answer| answer.from_server);
    let next = show.answer(next).await.filter(|answer| answer.from_server);
    let restarted = show.restarted(from).await;
    let troubled = show.stage.warned_since(from);
    show.promise(
        finished.is_some() && restarted.is_some() && !troubled,
        "the running call finishes",
        " first",
    );
    let gap = finished.zip(next).map(|(finished, next)| next.at.saturating_duration_since(finished.at));
    show.promise(gap.is_some(), "the next call waits for the new server", &after(gap));
}

async fn ended_by_itself(show: &mut Show) {
    show.act("It exits cleanly on its own").await;
    let from = show.let_server_retire(true);
    let last = show.echo("the last one").await;
    let told = show.stage.logged(from, "not counted against the restart budget").await;
    show.let_server_retire(false);
    let next = show.echo("the next one").await;
    show.restarted(from).await;
    show.promise(
        last.is_some() && told.is_some() && next.is_some() && !show.stage.warned_since(from),
        "no call fails, and no fault is counted",
        "",
    );
}

fn after(time: Option<Duration>) -> String {
    time.map(|time| format!(": {}", length(time))).unwrap_or_default()
}
