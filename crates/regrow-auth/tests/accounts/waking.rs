//! A connection that waits for a sign-in elsewhere.

use std::time::Duration;

use regrow::transport::http::Credential;
use tokio::time::{Instant, timeout};

use crate::fixture::{Issuer, account, key, refuse, rejected, store, temporary, token, tokens, write};

/// In simulated time, which stands still while something works.
#[tokio::test(start_paused = true)]
async fn a_sign_in_in_another_process_wakes_within_two_seconds() {
    let (_folder, store) = store(&account()).await;
    let credential = Issuer::failing([rejected()]).credential(&store);
    let mut changed = credential.changed();
    assert!(timeout(Duration::from_secs(3600), &mut changed).await.is_err(), "it works");
    assert!(!refuse(&credential).await);
    assert!(timeout(Duration::from_secs(3600), &mut changed).await.is_err(), "nobody has signed in");

    let signed_in = account().with_tokens(tokens(2), 0);
    write(&store, &signed_in).await;
    let since = Instant::now();
    timeout(Duration::from_secs(2), changed).await.unwrap();
    assert!(since.elapsed() <= Duration::from_secs(2));
    assert_eq!(token(&credential).unwrap(), "access-2");
    assert!(timeout(Duration::from_secs(3600), credential.changed()).await.is_err(), "once");
}

#[tokio::test(start_paused = true)]
async fn a_first_sign_in_and_a_sign_out_are_noticed() {
    let (_folder, store) = store(&account()).await;
    store.lock(&key()).await.unwrap().remove().unwrap();
    let credential = Issuer::default().credential(&store);
    assert!(!refuse(&credential).await);
    credential.fault(401);
    let changed = credential.changed();
    write(&store, &account()).await;
    timeout(Duration::from_secs(2), changed).await.unwrap();
    assert_eq!(token(&credential).unwrap(), "access-1");
    store.lock(&key()).await.unwrap().remove().unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(token(&credential), None);
}

#[tokio::test]
async fn an_authorization_server_that_works_again_wakes_too() {
    let (_folder, store) = store(&account()).await;
    let issuer = Issuer::failing([temporary()]);
    let credential = issuer.credential(&store);
    assert!(!refuse(&credential).await);
    timeout(crate::fixture::LIMIT, credential.changed()).await.unwrap();
    assert_eq!((token(&credential).unwrap(), issuer.requests().len()), ("access-2".into(), 2));
}

/// It would be refreshed on and on.
#[tokio::test(start_paused = true)]
async fn a_new_token_that_the_server_refuses_too_wakes_nobody() {
    let (_folder, store) = store(&account()).await;
    let issuer = Issuer::default();
    let credential = issuer.credential(&store);
    assert!(refuse(&credential).await);
    credential.fault(401); // As after the second refusal.
    assert!(timeout(Duration::from_secs(3600), credential.changed()).await.is_err());
    assert_eq!(issuer.requests().len(), 1);
}
