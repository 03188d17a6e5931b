//! The pages of the face without its sockets, for the fuzz target alone.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use regrow::ErrorStyle;

use super::access::Access;
use super::connections::ConnectionInfo;
use super::guard::Guard;
use super::origin::{Hosts, Origins};
use super::peer::Peer;
use super::route::Pages;
use super::token::Tokens;
use super::{Admit, ClientLimits, Face, FaceStats};
use crate::audit::Audit;

/// All pages, at `localhost`, for everybody.
pub fn pages(admit: Arc<dyn Admit>) -> Router {
    let (limits, shares) = (ClientLimits::default(), Arc::default());
    let face_stats = FaceStats::new(&limits, &shares);
    let guard = Guard {
        hosts: Hosts::new(vec![], &["localhost".into()], false).expect("it is a host"),
        origins: Origins::new(&[]).expect("none of them is wrong"),
        access: Access { clients: Tokens::new(vec![]), operators: Tokens::new(vec![]), any_user: true },
        audit: Audit::off(),
        face_stats: face_stats.clone(),
    };
    let face = Face::new(admit, Audit::off(), ErrorStyle::default(), limits, shares, face_stats);
    let pages = Arc::new(Pages::new(face, guard, Router::new(), true));
    Router::new().fallback(move |request: Request| {
        let pages = pages.clone();
        let (head, body) = request.into_parts();
        async move { pages.answer(&head, body, &ConnectionInfo { peer: Peer::Unknown, slot: None }).await }
    })
}
