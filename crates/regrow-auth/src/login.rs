//! The whole sign-in, from the address of an MCP server to its tokens.

use std::time::Duration;

use http::HeaderValue;
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::authorize::{AuthorizationRequest, Callback, CallbackError, OwnParameter, Pkce, scope};
use crate::challenge::bearer;
use crate::device::{self, DeviceCode};
use crate::discovery::{Discovered, DiscoveryError, Overrides, ask_server, discover};
use crate::guarded::{Guarded, HttpError};
use crate::listener::{
    CallbackHost, DOCUMENT_PATH, ListenError, Listener, Page, Return, host_of, path_of, port_of,
};
use crate::records::{AuthorizationServer, RegisteredBy, Registration, Resource, Secret, Tokens};
use crate::registration::{self, ClientMetadata, ClientSettings, Plan, RegistrationError};
use crate::token::{self, TokenError};

/// How long a person may take, unless an option says otherwise.
const PATIENCE: Duration = Duration::from_secs(600);

/// How a person signs in, or a client without one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// In a browser that returns to this computer, or whose last address the person pastes.
    #[default]
    Browser,
    /// On another device, with a code.
    Device,
    /// Nobody does: the client's own secret suffices.
    ClientCredentials,
}

/// What a sign-in is to be like.
#[derive(Clone, Debug)]
pub struct Options {
    /// The MCP server.
    pub server: Url,
    /// What it said to a request without a token, or with one that does not suffice. Empty: Regrow asks it.
    pub challenges: Vec<HeaderValue>,
    /// What the operator knows better than the metadata.
    pub overrides: Overrides,
    /// The client that the operator registered.
    pub client: ClientSettings,
    /// The registration of an earlier sign-in. None to register again (`--fresh`).
    pub known: Option<Registration>,
    /// The scopes that the operator asks for, in place of those that the server names.
    pub scope: Option<String>,
    /// The scopes that earlier tokens have, for a step-up.
    pub granted: Option<String>,
    /// More parameters of the authorization request.
    pub authorize_params: Vec<(String, String)>,
    /// How the redirect names this computer. None: as it did before.
    pub callback_host: Option<CallbackHost>,
    /// The port that the operator set for the redirect.
    pub callback_port: Option<u16>,
    /// How to sign in.
    pub flow: Flow,
    /// How long a person may take in a browser.
    pub patience: Duration,
}

impl Options {
    /// The usual sign-in at an MCP server.
    pub fn new(server: Url) -> Options {
        Options {
            server,
            challenges: vec![],
            overrides: Overrides::default(),
            client: ClientSettings::default(),
            known: None,
            scope: None,
            granted: None,
            authorize_params: vec![],
            callback_host: None,
            callback_port: None,
            flow: Flow::default(),
            patience: PATIENCE,
        }
    }

    /// Signs in as the client of an earlier sign-in. A client that the operator registered, and its issuer, are used again unless
    /// these options name others, and so is a metadata document.
    pub fn known(mut self, known: Registration) -> Options {
        let is_same_issuer = self.overrides.issuer.as_ref().is_none_or(|issuer| *issuer == known.issuer);
        if known.how == RegisteredBy::Configured && self.client.client_id.is_none() && is_same_issuer {
            self.client.client_id = Some(known.client_id.clone());
            self.client.client_secret = known.client_secret.clone();
            self.overrides.issuer = Some(known.issuer.clone());
        }
        let document =
            Url::parse(&known.client_id).ok().filter(|_| known.how == RegisteredBy::MetadataDocument);
        self.client.metadata_document = self.client.metadata_document.or(document);
        Options { known: Some(known), ..self }
    }
}

/// The person who signs in.
pub trait Person: Send + Sync {
    /// Shows an address, or opens it in a browser. It is https, or http on this computer.
    fn open(&self, url: &Url);

    /// Shows the code for another device.
    fn enter(&self, code: &DeviceCode);

    /// Waits for the address that the person pastes, where the browser cannot return to this computer. Called again if it was the
    /// wrong one, which the error says.
    fn pasted(&self, error: Option<&CallbackError>) -> impl Future<Output = String> + Send;
}

/// What a sign-in yields.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// What the tokens are for.
    pub resource: Resource,
    /// Who issued them.
    pub server: AuthorizationServer,
    /// Who Regrow is there.
    pub registration: Registration,
    /// The tokens.
    pub tokens: Tokens,
}

/// Why there are no tokens. Texts from outside are escaped; they are for people, not for a model.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    /// The address of the MCP server is refused.
    #[error(transparent)]
    Server(#[from] HttpError),
    /// There is no usable authorization server.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// There is no client to sign in with.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The port for the browser's return is not free.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The listener failed.
    #[error("the browser's return could not be received: {0}")]
    Return(std::io::Error),
    /// The authorization server has no such flow.
    #[error("the authorization server has no authorization endpoint: sign-in in a browser is not possible")]
    NoBrowserFlow,
    /// A parameter collides with one of Regrow's.
    #[error(transparent)]
    Parameter(#[from] OwnParameter),
    /// The browser brought something else than a code.
    #[error("sign-in failed: {0}")]
    Callback(#[from] CallbackError),
    /// There are no tokens for the code.
    #[error("sign-in failed: {0}")]
    Token(#[from] TokenError),
    /// Nobody signed in.
    #[error("nobody signed in in time")]
    TimedOut,
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandomness,
}

/// Signs in. Dropping it ends the listener; nothing is stored here.
pub async fn login(http: &Guarded, options: &Options, person: &impl Person) -> Result<SignedIn, LoginError> {
    http.check(&options.server)?;
    let challenges = match options.challenges.is_empty() {
        // Discovery knows where to look without them, and reports a server that is not reachable.
        true => ask_server(http, &options.server).await.unwrap_or_default(),
        false => options.challenges.clone(),
    };
    let found = discover(http, &options.server, &challenges, &options.overrides).await?;
    let scope = scope(
        options.scope.as_deref(),
        bearer(&challenges).scope.as_deref(),
        &found.scopes_supported,
        options.granted.as_deref(),
        &found.server.scopes_supported,
    );
    let attempt = Attempt { http, options, found: &found, scope: scope.as_deref() };
    let mut client = attempt.client(options.known.as_ref()).await?;
    let mut tokens = attempt.tokens(person, &client).await;
    let is_rejected = matches!(&tokens, Err(LoginError::Token(TokenError::ClientRejected { .. })));
    let is_known = client.registration.how == RegisteredBy::Dynamic
        && options.known.as_ref() == Some(&client.registration);
    if is_rejected && is_known {
        // The server has forgotten the client, or its secret. Its port is free again when the listener is dropped.
        drop(client);
        client = attempt.client(None).await?;
        tokens = attempt.tokens(person, &client).await;
    }
    let Client { registration, .. } = client;
    let tokens = tokens?;
    Ok(SignedIn { resource: found.resource, server: found.server, registration, tokens })
}

/// What all attempts of a sign-in share.
struct Attempt<'a> {
    http: &'a Guarded,
    options: &'a Options,
    found: &'a Discovered,
    scope: Option<&'a str>,
}

/// Who signs in, and where the browser returns to.
struct Client {
    registration: Registration,
    /// For the flow in a browser.
    listener: Option<Listener>,
}

impl Attempt<'_> {
    async fn client(&self, known: Option<&Registration>) -> Result<Client, LoginError> {
        let plan = self.plan(known)?;
        let listener = match self.options.flow {
            Flow::Browser => Some(self.listen(&plan).await?),
            Flow::Device | Flow::ClientCredentials => None,
        };
        let redirect_uri = listener.as_ref().map(Listener::redirect_uri);
        let registration = self.registration(plan, redirect_uri).await?;
        Ok(Client { registration, listener })
    }

    async fn tokens(&self, person: &impl Person, client: &Client) -> Result<Tokens, LoginError> {
        let (server, resource) = (&self.found.server, self.found.resource.resource.as_deref());
        let registration = &client.registration;
        let tokens = match &client.listener {
            Some(listener) => self.browser(person, registration, listener).await?,
            None if self.options.flow == Flow::Device => self.device(person, registration).await?,
            None => token::client_credentials(self.http, server, registration, self.scope, resource).await?,
        };
        // A response that names no scope grants what was asked for.
        let scope = tokens.scope.clone().or_else(|| self.scope.map(str::to_owned));
        Ok(Tokens { scope, ..tokens })
    }

    fn plan(&self, known: Option<&Registration>) -> Result<Plan, RegistrationError> {
        let (server, options) = (&self.found.server, self.options);
        let has_issuer = options.overrides.issuer.is_some();
        if options.flow == Flow::ClientCredentials && options.client.client_secret.is_none() {
            return Err(RegistrationError::NeedsSecret);
        }
        registration::plan(server, &options.client, has_issuer, known, token::now())
    }

    /// Listens on the operator's port, else on the registered one, else on a free one.
    async fn listen(&self, plan: &Plan) -> Result<Listener, ListenError> {
        let known = self.options.known.as_ref().and_then(|known| known.redirect_uri.as_deref());
        let host = self.options.callback_host.or(known.map(host_of)).unwrap_or_default();
        let path = match plan {
            Plan::Use(client) if client.how == RegisteredBy::MetadataDocument => DOCUMENT_PATH.to_owned(),
            Plan::Use(_) | Plan::Register => path_of(&self.options.server),
        };
        if let Some(port) = self.options.callback_port {
            return Listener::bind(&path, host, Some(port)).await;
        }
        let registered = match plan {
            Plan::Use(known) => known.redirect_uri.as_deref().and_then(port_of),
            Plan::Register => None,
        };
        if let Some(port) = registered
            && let Ok(listener) = Listener::bind(&path, host, Some(port)).await
        {
            return Ok(listener);
        }
        Listener::bind(&path, host, None).await
    }

    /// The client of this attempt. One that registered another redirect is registered again, and so is one that registered a
    /// redirect and is now to use a device, or the other way round.
    async fn registration(
        &self,
        plan: Plan,
        redirect_uri: Option<&str>,
    ) -> Result<Registration, RegistrationError> {
        let redirect_uri = redirect_uri.map(str::to_owned);
        match plan {
            Plan::Use(known) if known.how != RegisteredBy::Dynamic => {
                Ok(Registration { redirect_uri, ..known })
            }
            Plan::Use(known) if known.redirect_uri == redirect_uri => Ok(known),
            Plan::Use(_) | Plan::Register => {
                let device = self.options.flow == Flow::Device;
                let metadata =
                    ClientMetadata { redirect_uri: redirect_uri.as_deref(), scope: self.scope, device };
                registration::register(self.http, &self.found.server, &metadata).await
            }
        }
    }

    async fn device(&self, person: &impl Person, registration: &Registration) -> Result<Tokens, LoginError> {
        let (server, resource) = (&self.found.server, self.found.resource.resource.as_deref());
        let code = device::start(self.http, server, registration, self.scope, resource).await?;
        person.enter(&code);
        Ok(device::finish(self.http, server, registration, &code).await?)
    }

    async fn browser(
        &self,
        person: &impl Person,
        registration: &Registration,
        listener: &Listener,
    ) -> Result<Tokens, LoginError> {
        let server = &self.found.server;
        let endpoint = server.authorization_endpoint.as_ref().ok_or(LoginError::NoBrowserFlow)?;
        let pkce = Pkce::new().ok_or(LoginError::NoRandomness)?;
        let request = AuthorizationRequest {
            endpoint,
            client_id: &registration.client_id,
            redirect_uri: listener.redirect_uri(),
            resource: self.found.resource.resource.as_deref(),
            scope: self.scope,
            extra: &self.options.authorize_params,
            pkce: &pkce,
        };
        person.open(&request.url()?);
        let deadline = Instant::now() + self.options.patience;
        let returned = timeout_at(deadline, self.wait(person, listener, &pkce.state)).await;
        let (callback, browser) = returned.map_err(|_| LoginError::TimedOut)??;
        let result = self.exchange(registration, &callback, &pkce, listener.redirect_uri()).await;
        if let Some(browser) = browser {
            self.show(browser, &result).await;
        }
        result
    }

    /// Waits for the browser or for a pasted address, for the one that comes first.
    async fn wait(
        &self,
        person: &impl Person,
        listener: &Listener,
        state: &Secret,
    ) -> Result<(Callback, Option<Return>), LoginError> {
        let pasted = async {
            let mut error = None;
            loop {
                let text = person.pasted(error.as_ref()).await;
                let callback = Callback::of_address(&text);
                match callback.has_state(state) {
                    true => return callback,
                    false => error = Some(CallbackError::State),
                }
            }
        };
        tokio::select! {
            returned = listener.callback(state) => {
                let returned = returned.map_err(LoginError::Return)?;
                Ok((returned.callback.clone(), Some(returned)))
            }
            callback = pasted => Ok((callback, None)),
        }
    }

    async fn exchange(
        &self,
        registration: &Registration,
        callback: &Callback,
        pkce: &Pkce,
        redirect_uri: &str,
    ) -> Result<Tokens, LoginError> {
        let server = &self.found.server;
        let code = callback.code(&pkce.state, &server.issuer, server.iss_parameter_supported)?;
        let resource = self.found.resource.resource.as_deref();
        let verifier = &pkce.verifier;
        Ok(token::exchange(self.http, server, registration, &code, verifier, redirect_uri, resource).await?)
    }

    /// Tells the person in the browser how it went, which is known only after the exchange.
    async fn show(&self, browser: Return, result: &Result<Tokens, LoginError>) {
        let host = self.options.server.host_str().unwrap_or_default();
        match result {
            Ok(_) => {
                let page = Page {
                    title: "Signed in",
                    text: &format!("You are signed in to {host}."),
                    next: "Close this page and continue where you came from.",
                };
                browser.show(&page).await;
            }
            Err(error) => {
                let page = Page {
                    title: "Not signed in",
                    text: &format!("{host}: {error}."),
                    next: "To try again, run: regrow login",
                };
                browser.show(&page).await;
            }
        }
    }
}
