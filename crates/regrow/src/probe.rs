//! Asking a server for a sign of life.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Fault, Reach};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::call::Outcome;
use crate::desk::News;
use crate::error::CallError;
use crate::frame::Frame;
use crate::greet::enveloped;
use crate::memory::Greeting;
use crate::shared::Shared;
use crate::transport::Exchanges;
use crate::within::within;

/// A server that does not answer the question may still show life below the protocol.
const KNOCK_AFTER: Duration = Duration::from_secs(2);

/// Asks the server for a sign of life. Whatever it answers is one; the reader has heard it.
pub(crate) async fn probe(shared: Arc<Shared>, epoch: Epoch) {
    let exchanges = shared.desk().exchanger(epoch).map(|exchanger| exchanger.exchanges().clone());
    let asked = ask(&shared, epoch);
    let failed = match exchanges {
        None => asked.await,
        Some(exchanges) => tokio::select! {
            failed = asked => match failed {
                // The connection may have been closed under the question, as idle ones are. Another one tells.
                Some(Fault::Broken { .. } | Fault::AnswerCut) => knock(&shared, exchanges).await,
                failed => failed,
            },
            failed = async {
                sleep(KNOCK_AFTER).await;
                knock(&shared, exchanges.clone()).await
            } => failed,
        },
    };
    if let Some(fault) = failed {
        shared.tell(News::ProbeFailed(epoch, fault));
    }
}

/// Asks below the protocol. Gives the fault if nobody answers.
async fn knock(shared: &Shared, exchanges: Arc<dyn Exchanges>) -> Option<Fault> {
    let limit = shared.settings.policy.probe_timeout;
    match within(limit, exchanges.knock()).await {
        Some(Ok(())) => {
            shared.hear();
            None
        }
        Some(Err(fault)) => Some(fault),
        None => None, // Whoever waits for a sign of life has drawn his conclusions by now.
    }
}

/// Gives the fault that kept the question or its answer on the way.
async fn ask(shared: &Shared, epoch: Epoch) -> Option<Fault> {
    let (method, params) = match &shared.memory().greeting {
        Greeting::Modern { meta } => ("server/discover", enveloped(meta)),
        _ => ("ping", Bytes::from_static(b"{}")),
    };
    let limit = shared.settings.policy.probe_timeout;
    let end = shared.own_call(epoch, method, Some(&params), limit).await;
    match end {
        Ok(Outcome::Answered(answer)) => {
            shared.desk().ledger.ping_answered();
            // Where there is a knock, silence to both tells enough.
            if is_unknown_method(&answer) && shared.desk().exchanger(epoch).is_none() {
                shared.tell(News::ProbeRefused(epoch));
            }
            None
        }
        // Who answers with a status lives.
        Ok(Outcome::Failed(CallError { fault: Some(fault), .. })) if fault.reach() == Reach::Call => {
            shared.hear();
            None
        }
        Ok(Outcome::Failed(error)) => error.fault.map(|fault| (*fault).clone()),
        Ok(Outcome::Refused) | Err(_) => None,
    }
}

/// How long a server may take to say whether it knows the session. A call waits for that, which it has refused already.
const ASKED: Duration = Duration::from_secs(3);

/// Asks the server on this session whether it has forgotten it. All who want to know at the same time share one question.
pub(crate) async fn is_forgotten(shared: &Arc<Shared>, epoch: Epoch) -> bool {
    let mut answer = {
        let mut desk = shared.desk();
        let live = desk.is_live(epoch);
        let Some(exchanger) = desk.exchanger(epoch).filter(|_| live) else { return true };
        let running = exchanger.asking.clone().filter(|asking| asking.has_changed().is_ok());
        running.unwrap_or_else(|| {
            let (tell, answer) = watch::channel(None);
            exchanger.asking = Some(answer.clone());
            let shared = shared.clone();
            tokio::spawn(async move { tell.send_replace(Some(ask_for_session(&shared, epoch).await)) });
            answer
        })
    };
    // Where nobody answers, nothing speaks against what the server has said to the call.
    answer.wait_for(Option::is_some).await.is_ok_and(|answer| *answer == Some(true))
}

async fn ask_for_session(shared: &Shared, epoch: Epoch) -> bool {
    match shared.own_call(epoch, "ping", Some(b"{}"), ASKED).await {
        Ok(Outcome::Answered(_)) => {
            shared.desk().ledger.session_is_known();
            false
        }
        Ok(Outcome::Failed(CallError { fault: Some(fault), .. })) => fault.reach() == Reach::Session,
        Ok(Outcome::Failed(_) | Outcome::Refused) | Err(_) => false,
    }
}

fn is_unknown_method(answer: &Frame) -> bool {
    answer.error_code() == Some(-32601)
}
