//! Probes a server.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Event, Fault, Reach, Time};
use regrow_protocol::frame::Frame;
use regrow_protocol::{error_code, method};
use tokio::time::sleep;

use super::era::{Greeting, enveloped};
use super::shared::Shared;
use crate::call::Outcome;
use crate::error::CallError;
use crate::transport::Exchanges;
use crate::watch;
use crate::within::within;

/// A server that does not answer the question may still show life below the protocol.
const CHECK_AFTER: Duration = Duration::from_secs(2);

/// How a probe ended.
enum ProbeResult {
    Answer,
    Refusal,
    Nothing,
    Fault(Fault),
}

/// Probes the server. Any answer will do; the reader has heard it. `now`: when this was decided.
pub(crate) async fn probe(shared: Arc<Shared>, epoch: Epoch, now: Time) {
    let exchanges = shared.lock().exchanges(epoch).map(|set| set.exchanges.clone());
    let asked = ask(&shared, epoch);
    let heard = match exchanges {
        None => asked.await,
        Some(exchanges) => tokio::select! {
            biased;
            heard = asked => match heard {
                // The connection may have been closed under the question, as idle ones are. Another one tells.
                ProbeResult::Fault(Fault::Broken { .. } | Fault::AnswerCut) => check_reachable(&shared, exchanges).await,
                heard => heard,
            },
            heard = async {
                sleep(check_after(&shared)).await;
                check_reachable(&shared, exchanges.clone()).await
            } => heard,
        },
    };
    match heard {
        ProbeResult::Answer => shared.notify(Event::ProbeAnswered(epoch, now)),
        ProbeResult::Refusal => shared.notify(Event::ProbeRefused(epoch)),
        ProbeResult::Fault(fault) => shared.notify(Event::ProbeFailed(epoch, fault)),
        ProbeResult::Nothing => {}
    }
}

/// Where less silence is enough to replace a server, it is asked below the protocol sooner.
fn check_after(shared: &Shared) -> Duration {
    shared.settings.policy.hang_timeout.map_or(CHECK_AFTER, |hang| CHECK_AFTER.min(hang / 2))
}

/// How long a question may stay unanswered.
fn limit(shared: &Shared) -> Duration {
    let policy = &shared.settings.policy;
    policy.probe_timeout.max(policy.hang_timeout.unwrap_or_default())
}

/// Asks below the protocol.
async fn check_reachable(shared: &Shared, exchanges: Arc<dyn Exchanges>) -> ProbeResult {
    match within(limit(shared), exchanges.check_reachable()).await {
        Some(Ok(())) => {
            shared.hear();
            shared.count_message();
            ProbeResult::Answer
        }
        Some(Err(fault)) => ProbeResult::Fault(fault),
        None => ProbeResult::Nothing, // The probe deadline has already fired.
    }
}

/// Asks in the words of the protocol.
async fn ask(shared: &Shared, epoch: Epoch) -> ProbeResult {
    let (method, params) = match &shared.lock().memory.era.greeting {
        Greeting::Modern { meta } => (method::SERVER_DISCOVER, enveloped(meta)),
        _ => (method::PING, Bytes::from_static(b"{}")),
    };
    let end = shared.own_call(epoch, method, Some(&params), limit(shared)).await;
    match end {
        Ok(Outcome::Answered(answer)) => {
            let mut state = shared.lock();
            state.supervisor.ledger.ping_answered();
            // Over HTTP the server is also asked below the protocol: silence to both is enough.
            let refused = is_unknown_method(&answer) && state.exchanges(epoch).is_none();
            if refused { ProbeResult::Refusal } else { ProbeResult::Answer }
        }
        // Who answers with a status lives.
        Ok(Outcome::Failed(CallError { fault: Some(fault), .. })) if fault.reach() == Reach::Call => {
            shared.hear();
            shared.count_message();
            ProbeResult::Answer
        }
        Ok(Outcome::Failed(error)) => {
            error.fault.map_or(ProbeResult::Nothing, |fault| ProbeResult::Fault((*fault).clone()))
        }
        Ok(Outcome::Refused) | Err(_) => ProbeResult::Nothing,
    }
}

/// How long a server may take to say whether it knows the session. A call waits for that, which it has refused already.
const ASKED: Duration = Duration::from_secs(3);

/// Asks the server on this session whether it has forgotten it. All who want to know at the same time share one question.
pub(crate) async fn is_forgotten(shared: &Arc<Shared>, epoch: Epoch) -> bool {
    let mut answer = {
        let mut state = shared.lock();
        let live = state.is_live(epoch);
        let Some(exchanges) = state.exchanges(epoch).filter(|_| live) else { return true };
        let running = exchanges.asking.clone().filter(|asking| asking.has_changed().is_ok());
        running.unwrap_or_else(|| {
            let (tell, answer) = watch::channel(None);
            exchanges.asking = Some(answer.clone());
            let shared = shared.clone();
            tokio::spawn(async move { tell.send(Some(ask_for_session(&shared, epoch).await)) });
            answer
        })
    };
    // Where nobody answers, nothing speaks against what the server has said to the call.
    answer.wait_for(Option::is_some).await.is_ok_and(|answer| *answer == Some(true))
}

async fn ask_for_session(shared: &Shared, epoch: Epoch) -> bool {
    match shared.own_call(epoch, method::PING, Some(b"{}"), ASKED).await {
        Ok(Outcome::Answered(_)) => {
            shared.lock().supervisor.ledger.session_is_known();
            false
        }
        Ok(Outcome::Failed(CallError { fault: Some(fault), .. })) => fault.reach() == Reach::Session,
        Ok(Outcome::Failed(_) | Outcome::Refused) | Err(_) => false,
    }
}

fn is_unknown_method(answer: &Frame) -> bool {
    answer.error_code() == Some(error_code::METHOD_NOT_FOUND)
}
