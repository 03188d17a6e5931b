//! Asking a server for one of its lists, to the last page.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use regrow::Connection;
use regrow_protocol::error_code;
use regrow_protocol::list::List;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::listing::{Draft, MAX_PAGES};
use super::{Cut, Listing};

/// So long a server may take for one page, and no longer than for any other call: who waits for a hung server would keep it,
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// and for all.
const LIST_TIMEOUT: Duration = Duration::from_secs(180);

/// The list as it is now; or why it could not be had, in words without a server's own, which may hold secrets.
pub(super) async fn fetch(connection: &Connection, list: List, now: SystemTime) -> Result<Listing, String> {
    within(LIST_TIMEOUT, list, pages(connection, list, now)).await?
}

async fn within<T>(limit: Duration, list: List, work: impl Future<Output = T>) -> Result<T, String> {
    let took_longer = |_| format!("{} timed out after {} s", list.method(), limit.as_secs());
    timeout(limit, work).await.map_err(took_longer)
}

async fn pages(connection: &Connection, list: List, now: SystemTime) -> Result<Listing, String> {
    let method = list.method();
    let mut draft = Draft::new(list);
    let mut ttl: Option<Duration> = None;
    let mut seen = HashSet::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        let params = cursor.take().map(|cursor| json!({ "cursor": cursor }));
        // In the modern era the connection adds the envelope.
        let answer = within(PAGE_TIMEOUT, list, connection.request(method, params)).await?;
        let answer = answer.map_err(|error| error.to_string())?;
        let result = match answer.into_result() {
            Ok(result) => result,
            // Servers with resources need not know templates.
            Err(_)
                if list == List::Templates
                    && answer.frame().error_code() == Some(error_code::METHOD_NOT_FOUND) =>
            {
                b"{\"resourceTemplates\":[]}"
            }
            Err(_) => {
                let code = answer.frame().error_code().unwrap_or_default();
                return Err(format!("the server responded to {method} with error {code}"));
            }
        };
        let page: ListPage<'_> = serde_json::from_slice(result).ok().ok_or_else(|| unreadable(list))?;
        let ttl_here = page.ttl.as_ref().and_then(Value::as_u64).map(Duration::from_millis);
        ttl = [ttl, ttl_here].into_iter().flatten().min(); // The whole holds no longer than any part.
        if let Err(cut) = draft.add(page.items(list).ok_or_else(|| unreadable(list))?) {
            return Ok(draft.finish(now, ttl, Some(cut)));
        }
        let next = page.next.as_ref().and_then(Value::as_str).filter(|cursor| !cursor.is_empty());
        let Some(next) = next else { return Ok(draft.finish(now, ttl, None)) };
        if !seen.insert(next.to_owned()) {
            return Ok(draft.finish(now, ttl, Some(Cut::Cursor)));
        }
        cursor = Some(next.to_owned());
    }
    Ok(draft.finish(now, ttl, Some(Cut::Pages)))
}

fn unreadable(list: List) -> String {
    format!("the server's response to {} is not a list", list.method())
}

#[derive(Deserialize)]
pub(super) struct ListPage<'a> {
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    prompts: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    resources: Option<Vec<&'a RawValue>>,
    #[serde(borrow, rename = "resourceTemplates")]
    templates: Option<Vec<&'a RawValue>>,
    #[serde(rename = "nextCursor")]
    next: Option<Value>,
    #[serde(rename = "ttlMs")]
    ttl: Option<Value>,
}

impl<'a> ListPage<'a> {
    pub(super) fn items(&self, list: List) -> Option<&[&'a RawValue]> {
        match list {
            List::Tools => self.tools.as_deref(),
            List::Prompts => self.prompts.as_deref(),
            List::Resources => self.resources.as_deref(),
            List::Templates => self.templates.as_deref(),
        }
    }
}
