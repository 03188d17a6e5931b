//! Lists are fetched to their end, in both eras, and no list without an end.

use std::time::Duration;

use regrow::Era;
use regrow_gateway::catalog::Cut;
use regrow_protocol::list::List;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::fake::{Fake, Kept};

fn strings(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

#[tokio::test(start_paused = true)]
async fn only_the_lists_that_a_server_has_are_asked_for_once() {
    let fake = Fake::new();
    fake.world().capabilities = json!({ "tools": {}, "resources": {} });
    fake.answers("resources/list", |_| Ok(json!({ "resources": [{ "uri": "a:1" }] })));
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(kept.keys(List::Tools), strings(&["one"]));
    assert_eq!(kept.keys(List::Resources), strings(&["a:1"]));
    assert_eq!(kept.keys(List::Templates), strings(&[]), "it need not know templates");
    assert_eq!((kept.keys(List::Prompts), fake.count("prompts/list")), (None, 0));
    assert_eq!(kept.now().server_info.as_ref().unwrap()["name"], "fake");
    assert_eq!(kept.now().era, Era::Legacy);
    sleep(Duration::from_secs(86_400)).await;
    assert_eq!((fake.count("tools/list"), fake.count("resources/list")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_gets_the_envelope_with_every_page() {
    let fake = Fake::new();
    fake.answers("tools/list", |params| match params["cursor"].as_str() {
        None => Ok(json!({ "tools": [{ "name": "a" }], "nextCursor": "2" })),
        Some(_) => Ok(json!({ "tools": [{ "name": "b" }] })),
    });
    let kept = Kept::ready(&fake, Era::Modern).await;
    assert_eq!(kept.keys(List::Tools), strings(&["a", "b"]));
    assert_eq!(kept.now().server_info.as_ref().unwrap()["name"], "fake");
    assert_eq!(kept.now().era, Era::Modern);
    let heard = fake.heard_of("tools/list");
    let version = |params: &Value| params["_meta"]["io.modelcontextprotocol/protocolVersion"].clone();
    assert!(heard.iter().all(|heard| version(&heard["params"]) == "2026-07-28"), "{heard:?}");
    assert_eq!(heard[1]["params"]["cursor"], "2");
}

#[tokio::test(start_paused = true)]
async fn pages_are_read_to_the_last_and_items_come_once() {
    let fake = Fake::new();
    fake.answers("tools/list", |params| {
        let page: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let next = (page < 4).then(|| (page + 1).to_string());
        Ok(json!({ "tools": [{ "name": format!("t{page}") }, { "name": "same" }, {}], "nextCursor": next }))
    });
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(kept.keys(List::Tools), strings(&["t0", "same", "t1", "t2", "t3", "t4"]));
    let catalog = kept.now();
    let listing = catalog.listing(List::Tools).unwrap();
    assert_eq!((listing.left_out, listing.cut), (9, None));
    assert_eq!(fake.count("tools/list"), 5);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_repeats_ends_the_list() {
    let fake = Fake::new();
    fake.answers("tools/list", |_| Ok(json!({ "tools": [{ "name": "a" }], "nextCursor": "again" })));
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(kept.keys(List::Tools), strings(&["a"]));
    assert_eq!(kept.now().listing(List::Tools).unwrap().cut, Some(Cut::Cursor));
    assert_eq!(fake.count("tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_endless_pages_is_cut() {
    let fake = Fake::new();
    fake.answers("tools/list", |params| {
        let page: usize = params["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        Ok(json!({ "tools": [{ "name": page.to_string() }], "nextCursor": (page + 1).to_string() }))
    });
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(kept.keys(List::Tools).unwrap().len(), 100);
    assert_eq!(kept.now().listing(List::Tools).unwrap().cut, Some(Cut::Pages));
    assert_eq!(fake.count("tools/list"), 100);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_comes_holds_up_no_other() {
    let fake = Fake::new();
    fake.world().capabilities = json!({ "tools": {}, "prompts": {} });
    fake.answers("prompts/list", |_| Ok(Value::Null));
    let kept = Kept::ready(&fake, Era::Legacy).await;
    assert_eq!(kept.keys(List::Tools), strings(&["one"]));
    assert_eq!((kept.keys(List::Prompts), kept.now().stale(List::Prompts)), (None, None));
    sleep(Duration::from_secs(61)).await;
    let catalog = kept.now();
    let problem = catalog.stale(List::Prompts).unwrap();
    assert!(problem.contains("timed out after 60 s"), "{problem}");
}
