use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::*;
use crate::account::tests::{account, key, tokens};

fn store() -> (tempfile::TempDir, Store) {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::at(temporary.path().join("state/accounts"));
    (temporary, store)
}

async fn stored(store: &Store) -> Account {
    store.lock(&key()).await.unwrap().write(&account()).unwrap();
    account()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

#[tokio::test]
async fn an_account_is_private_and_read_as_it_was_written() {
    let (_temporary, store) = store();
    assert_eq!(store.read(&key()).unwrap(), None);
    assert!(store.list().unwrap().is_empty());
    let account = stored(&store).await;
    assert_eq!(store.read(&key()).unwrap(), Some(account.clone()));
    assert_eq!((mode(store.as_ref()), mode(&store.path(&key()))), (0o700, 0o600));
    let text: serde_json::Value =
        serde_json::from_slice(&std::fs::read(store.path(&key())).unwrap()).unwrap();
    assert_eq!((&text["format"], &text["generation"]), (&1.into(), &1.into()));
    let names = Folder::open(store.as_ref()).unwrap().names(9);
    assert_eq!(names.len(), 2, "the account and its lock: {names:?}");

    let (before, newer) = (store.stamp(&key()), account.with_tokens(tokens(2, None), 7));
    store.lock(&key()).await.unwrap().write(&newer).unwrap();
    assert_ne!(store.stamp(&key()), before);
    assert_eq!(store.list().unwrap()[0].as_ref().unwrap(), &newer);
    store.lock(&key()).await.unwrap().remove().unwrap();
    store.lock(&key()).await.unwrap().remove().unwrap();
    assert_eq!((store.read(&key()).unwrap(), store.stamp(&key())), (None, None));
}

#[tokio::test]
async fn a_file_that_is_damaged_or_newer_is_named_and_never_replaced() {
    let (_temporary, store) = store();
    stored(&store).await;
    let path = store.path(&key());
    let whole = std::fs::read_to_string(&path).unwrap();
    let other = whole.replace("https://mcp.example/mcp", "https://mcp.example/other");
    for (text, says) in [
        (&whole[..whole.len() / 2], "is damaged: it is not an account; delete it, or run: regrow logout URL"),
        ("", "it is not an account"),
        (&*whole.replace("\"format\": 1", "\"format\": 0"), "its format is unknown"),
        (&*whole.replace("access_token", "token"), "a part of it is missing or wrong"),
        (&*other, "it belongs to another account"),
        (&*whole.replace("\"format\": 1", "\"format\": 2"), "by a newer version of Regrow (format 2)"),
    ] {
        std::fs::write(&path, text).unwrap();
        let said = store.read(&key()).unwrap_err().to_string();
        assert!(said.contains(says) && said.contains(&*path.to_string_lossy()), "{said}");
        assert!(!said.contains("access-1"), "no secret is quoted: {said}");
        let refused = store.lock(&key()).await.unwrap().write(&account()).unwrap_err();
        assert!(matches!(refused, StoreError::Damaged { .. } | StoreError::Newer { .. }), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    assert!(store.list().unwrap()[0].is_err());
    store.lock(&key()).await.unwrap().remove().unwrap();
    assert_eq!(store.read(&key()).unwrap(), None);
}

#[tokio::test]
async fn what_waits_for_a_sign_in_is_found_by_its_name_until_a_sign_out() {
    let (_temporary, store) = store();
    assert!(store.pending().is_empty());
    let settings = Settings { client_id: Some("ours".into()), ..Settings::default() };
    let pending = Pending { name: "acme".into(), key: key(), settings };
    store.set_pending(&pending).unwrap();
    store.set_pending(&pending).unwrap();
    assert_eq!(store.pending(), [pending]);
    assert!(store.list().unwrap().is_empty());
    store.lock(&key()).await.unwrap().remove().unwrap();
    assert!(store.pending().is_empty());
}

#[tokio::test]
async fn what_others_can_read_is_refused() {
    let (_temporary, store) = store();
    stored(&store).await;
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o755)).unwrap();
    let said = store.read(&key()).unwrap_err().to_string();
    assert!(said.contains("other users have access to it"), "{said}");
    assert!(store.lock(&key()).await.is_err() && store.list().is_err());
}

#[tokio::test]
async fn one_at_a_time_holds_the_lock_and_nobody_deletes_it() {
    let (_temporary, store) = store();
    let held = store.lock(&key()).await.unwrap();
    let busy = store.lock_within(&key(), Duration::from_millis(20)).await.unwrap_err();
    assert!(matches!(busy, StoreError::Busy { .. }), "{busy}");
    let other = AccountKey { label: "work".into(), ..key() };
    store.lock(&other).await.unwrap();
    let draft = held.reserve().unwrap();
    assert!(store.lock_within(&key(), Duration::ZERO).await.is_err(), "a draft holds it, too");
    drop(draft);
    let again = store.lock(&key()).await.unwrap();
    again.remove().unwrap();
    let names = Folder::open(store.as_ref()).unwrap().names(9);
    assert!(names.contains(&format!("{}.lock", key().hash())), "{names:?}");
}

/// A process was killed, or the power failed, while it wrote.
#[tokio::test]
async fn a_write_that_did_not_end_changes_nothing_and_is_not_in_the_way() {
    let (_temporary, store) = store();
    let account = stored(&store).await;
    let draft = store.path(&key()).with_extension("new");
    let reserved = store.lock(&key()).await.unwrap().reserve().unwrap();
    let half = std::fs::read(&draft).unwrap();
    drop(reserved);
    assert!(!draft.exists(), "a draft that is given up leaves nothing");
    std::fs::write(&draft, &half[..100]).unwrap();
    assert_eq!(store.read(&key()).unwrap(), Some(account.clone()));
    assert_eq!(store.list().unwrap().len(), 1);
    let next = account.with_tokens(tokens(2, None), 7);
    store.lock(&key()).await.unwrap().write(&next).unwrap();
    assert_eq!(store.read(&key()).unwrap(), Some(next));
    assert!(!draft.exists());
}

#[tokio::test]
async fn where_nothing_can_be_written_the_error_says_so() {
    // A part of the system that takes no files, even of root.
    let store = Store::at("/proc/regrow/accounts");
    let said = store.lock(&key()).await.unwrap_err();
    assert!(!said.to_string().is_empty());
    let kinds = [
        (io::ErrorKind::StorageFull, "the disk is full"),
        (io::ErrorKind::QuotaExceeded, "the disk is full"),
        (io::ErrorKind::ReadOnlyFilesystem, "cannot be written"),
        (io::ErrorKind::PermissionDenied, "cannot be written"),
        (io::ErrorKind::TimedOut, "cannot be used"),
    ];
    for (kind, says) in kinds {
        let said = StoreError::new("/accounts".into(), kind.into()).to_string();
        assert!(said.contains(says), "{said}");
    }
}

fn signed_in() -> SignedIn {
    let Account { resource, server, registration, .. } = account();
    SignedIn { resource, server, registration, tokens: tokens(2, None) }
}

#[tokio::test]
async fn more_scopes_for_an_account_that_is_gone_are_not_stored() {
    let (_temporary, store) = store();
    assert!(!store.step_up(&key(), Some(signed_in()), &[]).await.unwrap());
    assert_eq!(store.read(&key()).unwrap(), None);
    stored(&store).await;
    assert!(store.step_up(&key(), Some(signed_in()), &[]).await.unwrap());
    assert_eq!(store.read(&key()).unwrap().unwrap().step_ups, 1);
}

#[tokio::test]
async fn an_attempt_ends_with_a_sign_in_and_with_a_sign_out_but_not_with_a_refusal() {
    let (_temporary, store) = store();
    let attempt = Attempt { at: 7, is_over: false };
    let locked = async || store.lock_attempt(&key(), Duration::ZERO).await.unwrap();
    let begin = async || locked().await.write(attempt).unwrap();
    begin().await;
    assert_eq!(locked().await.read(), Some(attempt));
    store.sign_in(&key(), signed_in()).await.unwrap();
    assert_eq!(store.attempt(&key()), None);
    begin().await;
    store.step_up(&key(), None, &["write".into()]).await.unwrap();
    assert_eq!(store.attempt(&key()), Some(attempt));
    store.step_up(&key(), Some(signed_in()), &[]).await.unwrap();
    assert_eq!(store.attempt(&key()), None);
    begin().await;
    store.lock(&key()).await.unwrap().remove().unwrap();
    assert_eq!(store.attempt(&key()), None);
}
