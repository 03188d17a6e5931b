//! The way of a message over a link: which kind of server it meets, and what becomes of it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use http::Method;
use regrow_core::Fault;
use regrow_protocol::lines::Line;
use regrow_protocol::{error_code, method, notification};

use super::http_exchange::HttpExchange;
use super::link::HttpLink;
use super::older;
use super::older::stream::Older;
use super::refusal::{Meaning, Refusal};
use super::request::{HttpReply, Outgoing, PROTOCOL_VERSION, SESSION_ID};
use super::{answer, listen, lookup, mirror};
use crate::transport::{BoxFuture, ExchangeHandler, Exchanges, ListenEnd, OutgoingMessage, Receipt};

impl Exchanges for HttpLink {
    fn carry(
        self: Arc<Self>,
        message: OutgoingMessage,
        handler: Arc<dyn ExchangeHandler>,
    ) -> BoxFuture<Result<Receipt, Fault>> {
        let mut http_exchange = HttpExchange::new(message, handler);
        Box::pin(async move {
            let exchange = pin!(self.exchange(&mut http_exchange));
            let carried = self.during_life(exchange).await.unwrap_or(Err(Fault::Closed));
            carried.map_err(|fault| self.told(fault))
        })
    }

    fn listen(self: Arc<Self>, handler: Arc<dyn ExchangeHandler>) -> BoxFuture<ListenEnd> {
        Box::pin(async move {
            let listening = pin!(async {
                match self.older.get() {
                    Some(older) => ListenEnd::Over(older.listen(handler).await),
                    None => match listen::listen(&self, &handler).await {
                        None => ListenEnd::NoStream,
                        Some(fault) => ListenEnd::Lost(fault),
                    },
                }
            });
            match self.during_life(listening).await.unwrap_or(ListenEnd::Over(Fault::Closed)) {
                ListenEnd::Over(fault) => ListenEnd::Over(self.told(fault)),
                ListenEnd::Lost(fault) => ListenEnd::Lost(self.told(fault)),
                ListenEnd::NoStream => ListenEnd::NoStream,
            }
        })
    }

    fn forgotten(&self) {
        self.expire();
    }

    fn check_reachable(self: Arc<Self>) -> BoxFuture<Result<(), Fault>> {
        Box::pin(async move {
            let outgoing = Outgoing::bare(Method::OPTIONS, self.target());
            let shown = self.http.access.show();
            // Sent once: the credential may be waiting for a person, and whatever the server says, it lives.
            let sending = pin!(self.send_once(&outgoing, &shown.headers));
            match self.during_life(sending).await.unwrap_or(Err(Fault::Closed)) {
                Ok(mut response) => {
                    response.rest().await;
                    Ok(())
                }
                Err(fault) => Err(self.told(fault)),
            }
        })
    }
}

impl HttpLink {
    /// What few messages need is boxed: the future of each message would have room for it, and be copied with it.
    async fn exchange(self: &Arc<Self>, http_exchange: &mut HttpExchange) -> Result<Receipt, Fault> {
        if let Some(older) = self.older.get() {
            return Box::pin(self.exchange_older(older, http_exchange)).await;
        }
        let greets = http_exchange.is(method::INITIALIZE) && !http_exchange.modern;
        if greets && self.http.older.load(Ordering::Relaxed) {
            if let Some(receipt) = Box::pin(self.greet_older(http_exchange)).await? {
                return Ok(receipt);
            }
            self.http.older.store(false, Ordering::Relaxed); // It has learnt better.
        }
        let mut reply = self.post(http_exchange).await?;
        if let HttpReply::Refused(refusal) = &reply {
            if greets
                && older::is_hinted_by(refusal)
                && let Some(receipt) = Box::pin(self.greet_older(http_exchange)).await?
            {
                self.http.older.store(true, Ordering::Relaxed);
                return Ok(receipt);
            }
            if Box::pin(self.can_say_more(http_exchange, refusal)).await {
                reply = Box::pin(self.post(http_exchange)).await?;
            }
        }
        match &mut reply {
            HttpReply::Good(response) => {
                if http_exchange.is(method::INITIALIZE) {
                    self.open_session(response.headers.get(SESSION_ID).cloned());
                }
                answer::read(self, http_exchange, response).await
            }
            HttpReply::Refused(refusal) => self.refused(http_exchange, refusal),
        }
    }

    fn refused(&self, http_exchange: &HttpExchange, refusal: &Refusal) -> Result<Receipt, Fault> {
        match refusal.meaning(http_exchange, SystemTime::now()) {
            Meaning::Fault(fault) => Err(fault),
            Meaning::Answer(bytes) => {
                http_exchange.hand_on(self, Line::Whole(bytes))?;
                Ok(Receipt::Done)
            }
        }
    }

    /// Shakes hands as in the first version of the protocol; none if the server does not speak that.
    async fn greet_older(
        self: &Arc<Self>,
        http_exchange: &mut HttpExchange,
    ) -> Result<Option<Receipt>, Fault> {
        let Some(older) = Older::open(self, http_exchange.handler.clone()).await? else { return Ok(None) };
        let older = self.older.get_or_init(|| older);
        self.exchange_older(older, http_exchange).await?;
        // Waited for here, so that a stream that ends instead is told of at once.
        older.answered().await?;
        Ok(Some(Receipt::Done))
    }

    async fn exchange_older(
        &self,
        older: &Older,
        http_exchange: &mut HttpExchange,
    ) -> Result<Receipt, Fault> {
        match older.post(self, http_exchange).await? {
            HttpReply::Refused(refusal) => self.refused(http_exchange, &refusal),
            HttpReply::Good(mut response) => {
                let code = response.status.as_u16();
                response.rest().await;
                Ok(if http_exchange.request.is_some() { Receipt::Elsewhere(code) } else { Receipt::Done })
            }
        }
    }

    /// Whether a call that was refused for want of a header can be sent again with it. It did not run.
    async fn can_say_more(&self, http_exchange: &HttpExchange, refusal: &Refusal) -> bool {
        let mismatch = refusal.code == 400
            && refusal
                .response()
                .is_some_and(|response| response.error_code() == Some(error_code::HEADER_MISMATCH));
        let Some(tool) = http_exchange.message.frame().name() else { return false };
        if !mismatch
            || !http_exchange.modern
            || !http_exchange.is(method::TOOLS_CALL)
            || http_exchange.mirrored
        {
            return false;
        }
        // Another call may have had them listed meanwhile.
        if !self.parameters().knows(&tool) {
            // Once on this link. If it fails, the refusal says enough.
            let _ = self.listed.get_or_try_init(|| lookup::tools(self, http_exchange)).await;
        }
        self.parameters().knows(&tool)
    }

    pub(super) async fn post(&self, http_exchange: &mut HttpExchange) -> Result<HttpReply, Fault> {
        let message = http_exchange.message.frame();
        let mut outgoing =
            Outgoing::post(self.target(), http_exchange.message.body(), http_exchange.handler.clone());
        outgoing.blocks = http_exchange.is(method::TASKS_RESULT);
        if http_exchange.modern {
            let parameters = self.parameters();
            http_exchange.mirrored = message.name().is_some_and(|tool| parameters.knows(&tool));
            mirror::headers(message, &parameters, &mut outgoing.headers);
        } else if !http_exchange.is(method::INITIALIZE) {
            let Some((id, version)) = self.session_headers() else {
                return Err(Fault::SessionExpired { ran: false }); // Another exchange has just learnt it.
            };
            http_exchange.in_session = id.is_some();
            outgoing = outgoing.with(SESSION_ID, id).with(PROTOCOL_VERSION, version);
            // The question for what the server says on its own follows on the same connection. On one that the server must first
            // take on it would be overtaken by the next call, and what that makes the server say would be said to nobody.
            outgoing.dedicated = message.method() == Some(notification::INITIALIZED);
        }
        self.send(&mut outgoing).await
    }
}
