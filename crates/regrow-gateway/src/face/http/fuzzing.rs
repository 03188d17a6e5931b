//! The pages of the face without its sockets, for the fuzz target alone.

use std::sync::Arc;

use axum::Router;
use regrow::ErrorStyle;

use super::guard::Guard;
use super::origin::{Hosts, Origins};
use super::token::Tokens;
use super::{Admit, Census, Face, Limits, route};

/// All pages, at `localhost`, for everybody.
pub fn pages(admit: Arc<dyn Admit>) -> Router {
    let census = Arc::new(Census::default());
    let guard = Guard {
        hosts: Hosts::new(vec![], &["localhost".into()], false).expect("it is a host"),
        origins: Origins::new(&[]).expect("none of them is wrong"),
        tokens: Tokens::new(vec![]),
        census: census.clone(),
    };
    let face = Face::new(admit, ErrorStyle::default(), Limits::default(), census);
    route::router(face, guard, Router::new(), true)
}
