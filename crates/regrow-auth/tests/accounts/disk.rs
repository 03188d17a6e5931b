//! Disks that are full or read-only, and power that fails.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use regrow::core::Fault;
use regrow::transport::http::Credential;
use regrow_auth::account::{Account, Rejection};

use crate::child;
use crate::fixture::{Issuer, LIMIT, account, credential, key, read, refuse, rejected, store, token, tokens};

fn said(front: &[&str], store: &regrow_auth::store::Store) -> String {
    let output = child::command(front, "refuse", store, "").output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn on_a_full_disk_no_token_is_given_up() {
    let (_folder, store) = store(&account()).await;
    // No file of the process may become larger than nothing.
    let full = ["sh", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""];
    let said = said(&full, &store);
    assert!(said.contains("false 0: the access token could not be refreshed: the disk is full"), "{said}");
    assert_eq!(read(&store), account());
    assert!(refuse(&Issuer::default().credential(&store)).await, "with space again it goes on");
}

#[tokio::test]
async fn on_a_read_only_disk_tokens_are_used_and_none_is_given_up() {
    let (_folder, store) = store(&account()).await;
    let set = |mode| std::fs::set_permissions(&store, PermissionsExt::from_mode(mode)).unwrap();
    set(0o500);
    // Root may write all the same, unless it gives up that right.
    let front: &[&str] = match rustix::process::geteuid().is_root() {
        true => &["setpriv", "--bounding-set", "-dac_override", "--"],
        false => &[],
    };
    let said = said(front, &store);
    set(0o700);
    assert!(said.contains("false 0: the access token could not be refreshed"), "{said}");
    assert!(said.contains("cannot be written"), "{said}");
    assert_eq!(read(&store), account());
}

#[tokio::test]
async fn new_tokens_that_cannot_be_stored_are_used_and_stored_later() {
    let (_folder, store) = store(&account()).await;
    let draft = store.path(&key()).with_extension("new");
    let credential = credential(
        &store,
        Arc::new(move |_| {
            std::fs::remove_file(&draft).unwrap(); // What is reserved disappears.
            Box::pin(std::future::ready(Ok(tokens(2))))
        }),
    );
    assert!(refuse(&credential).await);
    assert_eq!((token(&credential).unwrap(), read(&store)), ("access-2".into(), account()));
    let stored = async {
        while read(&store).generation != 2 {
            assert_eq!(token(&credential).unwrap(), "access-2");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, stored).await.unwrap();
}

/// Whether that costs the account is up to the authorization server: it may accept a refresh token again until the next one is used.
#[tokio::test]
async fn after_a_power_failure_between_response_and_disk_the_old_token_is_tried_again() {
    let (_folder, store) = store(&account()).await;
    let died = child::command(&[], "die", &store, "").output().unwrap();
    assert!(!died.status.success());
    assert_eq!(read(&store), account(), "what was stored is whole");
    let issuer = Issuer::default();
    let lenient = issuer.credential(&store);
    assert!(refuse(&lenient).await);
    assert_eq!(issuer.requests(), ["refresh-1"]);

    let died = child::command(&[], "die", &store, "").output().unwrap();
    assert!(!died.status.success());
    let strict = Issuer::failing([rejected()]).credential(&store);
    assert!(!refuse(&strict).await);
    assert!(matches!(strict.fault(401), Fault::SignInNeeded { .. }));
    let Account { registration, rejected, .. } = read(&store);
    assert_eq!((registration, rejected), (account().registration, Some(Rejection::RefreshToken)));
}
