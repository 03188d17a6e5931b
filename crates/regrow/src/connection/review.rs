//! Shows what a new session offers to the approver, before calls go there.

use regrow_core::{Epoch, Fault};
use regrow_protocol::frame::Frame;
use regrow_protocol::list::List;
use serde_json::Value;

use super::compare::page;
use super::greet::GreetResult;
use super::memory::MAX_PAGES;
use super::shared::Shared;
use crate::call::Outcome;

/// More of a list is not looked at.
const MAX_BYTES: usize = 16 << 20;

/// A list that the server answers with an error is empty. One that it does not answer ends the session: nobody knows what it offers.
pub(crate) async fn review(shared: &Shared, epoch: Epoch) -> GreetResult {
    let Some(approver) = &shared.settings.approver else { return Ok(()) };
    let welcome = shared.lock().memory.era.welcome.clone();
    let welcome: Option<Value> = welcome.and_then(|welcome| serde_json::from_slice(&welcome.result).ok());
    for list in [List::Tools, List::Prompts] {
        let capability = welcome.as_ref().map(|welcome| &welcome["capabilities"][list.capability()]);
        let pages = match capability {
            Some(Value::Null) => vec![],
            _ => read(shared, epoch, list).await?,
        };
        approver.review(list, &pages);
    }
    Ok(())
}

async fn read(shared: &Shared, epoch: Epoch, list: List) -> Result<Vec<Frame>, Option<Fault>> {
    let mut pages: Vec<Frame> = vec![];
    let mut cursor = None;
    let mut bytes = 0;
    while pages.len() < MAX_PAGES && bytes <= MAX_BYTES {
        let answer = match page(shared, epoch, list, cursor).await {
            Some(Outcome::Answered(answer)) => answer,
            Some(Outcome::Failed(error)) => return Err(error.fault.map(|fault| (*fault).clone())),
            Some(Outcome::Refused) | None => return Err(None),
        };
        let result: Value = serde_json::from_slice(answer.result().unwrap_or_default()).unwrap_or_default();
        cursor = result["nextCursor"].as_str().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
        bytes += answer.bytes().len();
        pages.push(answer);
        if cursor.is_none() {
            break;
        }
    }
    Ok(pages)
}
