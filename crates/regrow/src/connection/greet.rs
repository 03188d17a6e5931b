//! Greeting a server in its own era: finding that out, shaking hands, and checking that it is still what it was.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Event, Fault, Step};
use regrow_protocol::frame::{self, Frame};
use regrow_protocol::text::escape;
use regrow_protocol::version::{Era, MODERN};
use regrow_protocol::{error_code, method, notification};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::era::{Agreed, Greeting, enveloped};
use super::shared::Shared;
use crate::call::Outcome;
use crate::upstream::{ClientParams, HandshakeResult};
use crate::within::within;

/// A server that has just shaken hands gets at least this long to say its era.
const VERIFY_AT_LEAST: Duration = Duration::from_secs(1);

/// What went wrong; none where the session's reader knows better.
pub(crate) type GreetResult = Result<(), Option<Fault>>;

/// Before the first session: an era that is worth a try before the server is asked for its own.
pub(crate) fn guess_era(shared: &Shared) {
    let Some(hello) = shared.lock().memory.era.unguessed() else { return };
    let era = likely_era(shared, &hello); // It may read a file: not under the lock.
    shared.lock().memory.era.guess(era);
}

/// Greets the server of this session.
pub(crate) async fn greet(shared: &Shared, epoch: Epoch, greeting: Greeting) -> GreetResult {
    let known = match greeting {
        Greeting::Unknown(hello) => return look_again(shared, find_era(shared, epoch, hello).await),
        // It was asked and did not live to answer.
        Greeting::ResponseFormat(hello) => {
            let legacy = Greeting::legacy(&hello);
            let era = &mut shared.lock().memory.era;
            era.assume_legacy(hello, false);
            era.count_try();
            legacy
        }
        known => known,
    };
    let began = Instant::now();
    let greeted = match shake_hands(shared, epoch, known).await {
        Ok(()) => verify(shared, epoch, began.elapsed()).await,
        failed => failed,
    };
    look_again(shared, greeted)
}

/// A legacy client's own era, in which nothing has to be bridged; or what an earlier start found out.
fn likely_era(shared: &Shared, hello: &ClientParams) -> Era {
    if hello.legacy_version.is_some() {
        return Era::Legacy;
    }
    let recalled = shared.settings.era_file.as_ref().and_then(|(file, address)| file.recall(address));
    recalled.unwrap_or_default()
}

/// A guess may be wrong: then we ask. The detected era is remembered.
fn look_again(shared: &Shared, greeted: GreetResult) -> GreetResult {
    use Fault::{HandshakeRefused, NotMcp, Status, WrongEra};
    let mut state = shared.lock();
    let era = &mut state.memory.era;
    let modern = era.is_modern();
    let refused = match &greeted {
        Err(Some(HandshakeRefused { .. } | WrongEra)) => era.is_guess(),
        Err(Some(NotMcp { .. } | Status { code: ..500, .. })) => era.is_guess() && modern,
        _ => false,
    };
    if refused && era.take_back_guess().is_some() {
        drop(state);
        if let Some((file, address)) = &shared.settings.era_file {
            file.forget(address);
        }
        return Err(Some(WrongEra));
    }
    if greeted.is_ok() {
        let found_out = !era.is_guess() && !era.is_provisional();
        era.era_is_known();
        drop(state);
        if let Some((file, address)) = shared.settings.era_file.as_ref().filter(|_| found_out) {
            file.remember(address, modern);
        }
    }
    greeted.map_err(|fault| fault.map(not_mcp))
}

/// A refusal instead of a handshake: the server does not speak the protocol.
fn not_mcp(fault: Fault) -> Fault {
    match fault {
        Fault::Status { code: code @ ..500, said } => Fault::NotMcp { found: format!("HTTP {code}{said}") },
        fault => fault,
    }
}

async fn shake_hands(shared: &Shared, epoch: Epoch, greeting: Greeting) -> GreetResult {
    match greeting {
        Greeting::Legacy { params, agreed } => {
            let offer = agreed.as_ref().and_then(|agreed| agreed.offer(&params));
            let answer = ask(shared, epoch, method::INITIALIZE, offer.as_ref().unwrap_or(&params)).await?;
            let Some(now) = answer.result().and_then(Agreed::read) else {
                return Err(Some(match &agreed {
                    Some(before) if is_modern_error(&answer) => {
                        let is = format!("{MODERN} or later");
                        Fault::VersionChanged { was: before.version.clone(), is }
                    }
                    None if is_modern_error(&answer) && become_modern(shared, &params) => Fault::WrongEra,
                    None => {
                        // A server that knows no handshake was silent when it was asked for its era.
                        if answer.error_code() == Some(error_code::METHOD_NOT_FOUND)
                            && let Some(hello) = hello(shared, &params)
                        {
                            shared.lock().memory.era.ask_again(hello);
                        }
                        refused(shared, &answer)
                    }
                    Some(_) => refused(shared, &answer),
                }));
            };
            // In that revision there is no handshake: a server that agrees to it means its own era.
            if now.version == MODERN && agreed.is_none() && become_modern(shared, &params) {
                return Err(Some(Fault::WrongEra));
            }
            if let Some(before) = &agreed {
                check(shared, before, &now)?;
            }
            {
                let era = &mut shared.lock().memory.era;
                era.greeting = Greeting::Legacy { params, agreed: Some(agreed.unwrap_or(now)) };
                era.welcome = welcome(&answer, false);
            }
            let line = frame::notification(notification::INITIALIZED, None);
            shared.deliver(epoch, line).await.map_err(Some)
        }
        Greeting::Modern { meta } => {
            let answer = discover(shared, epoch, &enveloped(&meta)).await?;
            // Any answer shows that it lives; a server that no longer speaks the client's version is useless.
            let changed = Fault::VersionChanged { was: MODERN.into(), is: "another revision".into() };
            match answer.error_code() {
                // Not a word of the modern era.
                _ if shared.lock().memory.era.is_guess() && !speaks_modern(&answer) => {
                    Err(Some(Fault::WrongEra))
                }
                Some(error_code::UNSUPPORTED_PROTOCOL_VERSION)
                    if names_our_revision(&answer) != Some(true) =>
                {
                    Err(Some(changed))
                }
                _ if shared.settings.greets && !speaks_modern(&answer) => {
                    // Insisted on, and not spoken: without a welcome there is nothing to tell the client.
                    let known = shared.lock().memory.era.welcome.is_some();
                    Err(Some(if known { changed } else { refused(shared, &answer) }))
                }
                _ => {
                    shared.lock().memory.era.welcome = welcome(&answer, true);
                    Ok(())
                }
            }
        }
        Greeting::ByClient | Greeting::Unknown(_) | Greeting::ResponseFormat(_) => Ok(()),
    }
}

/// Which era does the server speak? A server of the other one is started afresh: some are spoilt by the question.
async fn find_era(shared: &Shared, epoch: Epoch, hello: ClientParams) -> GreetResult {
    let meta = Greeting::envelope(&hello);
    shared.lock().memory.era.greeting = Greeting::ResponseFormat(hello.clone());
    shared.notify(Event::Begun(epoch, Step::Discovering));
    let era = match ask_twice(shared, epoch, &enveloped(&meta)).await {
        // A server that knows only the legacy era need not know what a message of the other is.
        Some(Err(Some(Fault::Status { code: ..500, .. }))) => Greeting::legacy(&hello),
        Some(Err(fault)) => {
            // A process that dies of the question tells its era. An exchange that fails tells nothing.
            if shared.lock().exchanges(epoch).is_some() {
                shared.lock().memory.era.forget_question();
            }
            return Err(fault);
        }
        Some(Ok(answer)) => match speaks_modern(&answer) {
            true => {
                shared.lock().memory.era.welcome = welcome(&answer, true);
                Greeting::modern(&hello)
            }
            false => Greeting::legacy(&hello),
        },
        // Silence is no answer: it is greeted as a legacy server, and asked again when it has shaken hands.
        None => {
            shared.lock().memory.era.assume_legacy(hello, true);
            return Err(Some(Fault::WrongEra));
        }
    };
    let modern = matches!(era, Greeting::Modern { .. });
    shared.lock().memory.era.greeting = era;
    if modern { Ok(()) } else { Err(Some(Fault::WrongEra)) }
}

/// Asks for the era, and again after a quarter of the time; whichever question is answered first counts. None: silence.
async fn ask_twice(shared: &Shared, epoch: Epoch, params: &Bytes) -> Option<Result<Frame, Option<Fault>>> {
    let limit = question_limit(shared);
    let mut first = pin!(discover(shared, epoch, params));
    if let Some(answer) = within(limit / 4, &mut first).await {
        return Some(answer);
    }
    let either = async {
        tokio::select! {
            biased;
            answer = first => answer,
            answer = discover(shared, epoch, params) => answer,
        }
    };
    within(limit - limit / 4, either).await
}

/// How long a server may take to say which era it speaks. The rest of the time is for the handshake of the other one.
fn question_limit(shared: &Shared) -> Duration {
    let policy = &shared.settings.policy;
    policy.discover_timeout.min(policy.connect_timeout / 2)
}

/// A silent server has shaken hands as a legacy one. Under load a modern server may do that, too; now it is awake, so it is
/// asked once more, before any client relies on its era.
async fn verify(shared: &Shared, epoch: Epoch, handshake_took: Duration) -> GreetResult {
    let Some(hello) = shared.lock().memory.era.take_assumed() else { return Ok(()) };
    let meta = Greeting::envelope(&hello);
    shared.notify(Event::Begun(epoch, Step::Discovering));
    let policy = &shared.settings.policy;
    let most = question_limit(shared) / 4;
    let wait = handshake_took.clamp(VERIFY_AT_LEAST.min(most), most);
    let mut asked =
        shared.own_call(epoch, method::SERVER_DISCOVER, Some(&enveloped(&meta)), policy.connect_timeout * 2);
    let answered = within(wait, &mut asked).await;
    shared.notify(Event::Begun(epoch, Step::Greeting));
    match answered {
        Some(Ok(Outcome::Answered(answer))) if speaks_modern(&answer) => {
            shared.lock().memory.era.become_modern(&hello);
            return Err(Some(Fault::WrongEra));
        }
        // So it is a legacy server, whatever it says.
        Some(Ok(Outcome::Answered(_) | Outcome::Refused)) => {}
        Some(Ok(Outcome::Failed(error))) => match error.fault.as_deref() {
            Some(Fault::Status { code: ..500, .. }) => {}
            // An exchange that fails tells nothing. A process that dies does, and its reader knows why.
            _ if shared.lock().exchanges(epoch).is_some() => shared.lock().memory.era.stay_provisional(),
            _ => return Err(None),
        },
        Some(Err(_)) => return Err(None),
        None => {
            shared.lock().memory.era.stay_provisional();
            remember_late_answer(shared, asked);
        }
    }
    Ok(())
}

/// A modern answer that comes too late for this connection is remembered for the next one.
fn remember_late_answer(shared: &Shared, asked: oneshot::Receiver<Outcome>) {
    let Some((file, address)) = shared.settings.era_file.clone() else { return };
    tokio::spawn(async move {
        if let Ok(Outcome::Answered(answer)) = asked.await
            && speaks_modern(&answer)
        {
            file.remember(&address, true);
        }
    });
}

/// Asks who is there; once more where our revision is refused in favour of itself.
async fn discover(shared: &Shared, epoch: Epoch, params: &Bytes) -> Result<Frame, Option<Fault>> {
    let answer = ask(shared, epoch, method::SERVER_DISCOVER, params).await?;
    match answer.error_code() {
        Some(error_code::UNSUPPORTED_PROTOCOL_VERSION) if names_our_revision(&answer) == Some(true) => {
            ask(shared, epoch, method::SERVER_DISCOVER, params).await
        }
        _ => Ok(answer),
    }
}

fn welcome(answer: &Frame, modern: bool) -> Option<HandshakeResult> {
    answer.result().map(|result| HandshakeResult { modern, result: Bytes::copy_from_slice(result) })
}

/// Whether this answer to `server/discover` is one of the modern era. There are legacy servers that answer whatever they are
/// asked, with an empty result.
pub(crate) fn speaks_modern(answer: &Frame) -> bool {
    match answer.result() {
        Some(_) => names_our_revision(answer) == Some(true),
        None => is_modern_error(answer) && names_our_revision(answer) != Some(false),
    }
}

/// Whether our revision is among those that this answer to `server/discover` names; none where it names none.
fn names_our_revision(answer: &Frame) -> Option<bool> {
    let (json, path) = match answer.result() {
        Some(result) => (result, "/supportedVersions"),
        None => (answer.error()?, "/data/supported"),
    };
    let value: Value = serde_json::from_slice(json).ok()?;
    let named = value.pointer(path)?.as_array()?;
    Some(named.iter().any(|version| version == MODERN))
}

fn is_modern_error(answer: &Frame) -> bool {
    answer.error_code().is_some_and(error_code::is_modern)
}

/// Where we greet ourselves: the server refused the legacy handshake in words of the modern era.
fn become_modern(shared: &Shared, params: &[u8]) -> bool {
    let Some(hello) = hello(shared, params) else { return false };
    shared.lock().memory.era.become_modern(&hello);
    true
}

/// Who greeted with these parameters; none where the operator insists on the era.
fn hello(shared: &Shared, params: &[u8]) -> Option<ClientParams> {
    if shared.settings.era != Era::Auto {
        return None;
    }
    let params: Value = serde_json::from_slice(params).ok()?;
    Some(ClientParams {
        client_info: params["clientInfo"].clone(),
        capabilities: params["capabilities"].clone(),
        legacy_version: params["protocolVersion"].as_str().map(ToOwned::to_owned),
    })
}

/// The client goes on as if nothing had happened, so what it relies on must still be there.
fn check(shared: &Shared, before: &Agreed, now: &Agreed) -> GreetResult {
    if before.version != now.version {
        let (was, is) = (before.version.clone(), escape(&now.version));
        return Err(Some(Fault::VersionChanged { was, is }));
    }
    let is_lost = |name: &str| before.capabilities.contains(name) && !now.capabilities.contains(name);
    let lost = shared.lock().handshake.find_used(is_lost);
    match lost {
        Some(name) => Err(Some(Fault::CapabilityLost { name: name.into() })),
        None => Ok(()),
    }
}

fn refused(shared: &Shared, answer: &Frame) -> Fault {
    let error: Value =
        answer.error().and_then(|error| serde_json::from_slice(error).ok()).unwrap_or_default();
    let said: String = error["message"]
        .as_str()
        .unwrap_or("a response without a result or an error")
        .chars()
        .take(300)
        .collect();
    Fault::HandshakeRefused {
        code: answer.error_code().unwrap_or_default(),
        message: shared.settings.mask.apply(&escape(&said)),
    }
}

async fn ask(shared: &Shared, epoch: Epoch, method: &str, params: &[u8]) -> Result<Frame, Option<Fault>> {
    // The lifecycle ends the attempt at its own limit, and says so better.
    let limit = shared.settings.policy.connect_timeout * 2;
    match shared.own_call(epoch, method, Some(params), limit).await {
        Ok(Outcome::Answered(frame)) => Ok(frame),
        Ok(Outcome::Failed(error)) => Err(error.fault.map(|fault| (*fault).clone())),
        Ok(Outcome::Refused) | Err(_) => Err(None),
    }
}
