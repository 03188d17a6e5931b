//! The pages of the face without its sockets, for the fuzz target alone.

use std::sync::Arc;

use axum::Router;
use regrow::ErrorStyle;

use super::access::Access;
use super::guard::Guard;
use super::origin::{Hosts, Origins};
use super::token::Tokens;
use super::{Admit, ClientLimits, Face, FaceStats, route};
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
    route::router(face, guard, Router::new(), true)
}
