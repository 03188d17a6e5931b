//! Catalogs that outlive the run, and files that are broken, foreign or old.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use regrow_protocol::list::List;
use serde_json::json;
use tempfile::{TempDir, tempdir};

use super::super::{Catalog, made_up};
use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn key() -> StoreKey {
    StoreKey::of(b"mcp-server --token secret")
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + DAY * 20_000
}

fn store(folder: &TempDir) -> Store {
    Store::open(folder.path().join("regrow"), now())
}

fn catalog(tool: &str) -> Arc<Catalog> {
    let welcome = json!({
        "serverInfo": { "name": "files" },
        "capabilities": { "tools": {}, "resources": { "subscribe": true } },
        "instructions": "be kind",
    });
    let tool = format!(r#"{{"name" : "{tool}", "n":1.50}}"#);
    made_up::catalog(&welcome, &[(List::Tools, &[&tool]), (List::Resources, &[])])
}

fn only_file(store: &Store) -> std::path::PathBuf {
    let files: Vec<_> = fs::read_dir(store.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    file.clone()
}

#[tokio::test]
async fn what_a_server_offered_is_recalled_in_its_own_words_and_stale_until_it_is_asked() {
    let folder = tempdir().unwrap();
    let kept = catalog("read");
    let before = store(&folder);
    before.keep(key(), kept.clone());
    before.settled().await;
    let again = store(&folder);
    let recalled = again.recall(key(), now()).unwrap();
    let tools = recalled.listing(List::Tools).unwrap();
    assert_eq!(tools.items()[0].raw().get(), r#"{"name" : "read", "n":1.50}"#);
    assert_eq!(tools.revision(), kept.listing(List::Tools).unwrap().revision());
    assert!(recalled.stale(List::Tools).unwrap().contains("earlier run"));
    assert!(recalled.listing(List::Resources).unwrap().items().is_empty());
    assert!(recalled.listing(List::Prompts).is_none() && recalled.stale(List::Prompts).is_none());
    assert_eq!(recalled.capabilities, kept.capabilities);
    assert_eq!(
        (recalled.server_info, recalled.instructions),
        (kept.server_info.clone(), Some("be kind".into()))
    );
    assert_eq!(again.recall(StoreKey::of(b"another"), now()).map(|_| ()), None);
}

#[tokio::test]
async fn only_the_user_may_read_it_and_its_name_tells_nothing() {
    let folder = tempdir().unwrap();
    let store = store(&folder);
    store.keep(key(), catalog("read"));
    store.settled().await;
    let file = only_file(&store);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(store.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(file.file_name().unwrap().to_str().unwrap(), format!("{}.json", key()));
    assert!(!fs::read_to_string(&file).unwrap().contains("secret"));
}

#[tokio::test]
async fn of_many_catalogs_the_newest_is_kept() {
    let folder = tempdir().unwrap();
    let store = store(&folder);
    for n in 0..200 {
        store.keep(key(), catalog(&format!("tool{n}")));
    }
    store.settled().await;
    let recalled = store.recall(key(), now()).unwrap();
    assert_eq!(recalled.listing(List::Tools).unwrap().items()[0].key(), "tool199");
    only_file(&store); // And nothing is left beside it.
}

#[tokio::test]
async fn a_broken_file_is_ignored_and_replaced() {
    let folder = tempdir().unwrap();
    let store = store(&folder);
    store.keep(key(), catalog("read"));
    store.settled().await;
    let file = only_file(&store);
    let whole = fs::read(&file).unwrap();
    let half = &whole[..whole.len() / 2];
    let other_version = String::from_utf8(whole.clone()).unwrap().replace("\"version\":1", "\"version\":2");
    for broken in [&b""[..], b"not json", b"[]", b"{}", half, other_version.as_bytes(), &[0xff; 64]] {
        fs::write(&file, broken).unwrap();
        assert!(store.recall(key(), now()).is_none());
    }
    store.keep(key(), catalog("write"));
    store.settled().await;
    assert_eq!(store.recall(key(), now()).unwrap().listing(List::Tools).unwrap().items()[0].key(), "write");
}

#[tokio::test]
async fn what_was_not_used_for_long_goes_and_nothing_that_is_not_ours() {
    let folder = tempdir().unwrap();
    let store = store(&folder);
    let old = StoreKey::of(b"old");
    for key in [key(), old] {
        store.keep(key, catalog("read"));
    }
    store.settled().await;
    let foreign = store.folder().join("notes.json");
    fs::write(&foreign, "mine").unwrap();
    for file in fs::read_dir(store.folder()).unwrap() {
        fs::File::open(file.unwrap().path()).unwrap().set_modified(now()).unwrap();
    }
    let later = now() + DAY * 80;
    assert!(store.recall(key(), later).is_some(), "this counts as use");
    let store = Store::open(folder.path().join("regrow"), now() + DAY * 91);
    assert!(store.recall(key(), later).is_some());
    assert!(store.recall(old, later).is_none());
    assert!(foreign.exists());
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_no_reason_to_fail() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let store = Store::open(file.join("regrow"), now());
    store.keep(key(), catalog("read"));
    store.settled().await;
    assert!(store.recall(key(), now()).is_none());
}
