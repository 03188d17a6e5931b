//! Asking a server for a sign of life.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use regrow_core::{Epoch, Fault, Reach};
use tokio::time::sleep;

use crate::call::Outcome;
use crate::desk::News;
use crate::error::CallError;
use crate::frame::Frame;
use crate::greet::enveloped;
use crate::memory::Greeting;
use crate::shared::Shared;

/// A server that does not answer the question may still show life below the protocol.
const KNOCK_AFTER: Duration = Duration::from_secs(2);

/// Asks the server for a sign of life. Whatever it answers is one; the reader has heard it.
pub(crate) async fn probe(shared: Arc<Shared>, epoch: Epoch) {
    let exchanges = shared.desk().exchanger(epoch).map(|exchanger| exchanger.exchanges().clone());
    let knock = async {
        let Some(exchanges) = exchanges else { return std::future::pending().await };
        sleep(KNOCK_AFTER).await;
        exchanges.knock().await
    };
    let failed = tokio::select! {
        failed = ask(&shared, epoch) => failed,
        knocked = knock => {
            if knocked.is_ok() {
                shared.hear();
            }
            knocked.err()
        }
    };
    if let Some(fault) = failed {
        shared.tell(News::ProbeFailed(epoch, fault));
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

fn is_unknown_method(answer: &Frame) -> bool {
    answer.error_code() == Some(-32601)
}
