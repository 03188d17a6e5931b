"""A server that is its own authorization server, with `mcp.server.auth` of either Python SDK: registration, PKCE, refresh with rotation, revocation.

protected_server.py: prints its origin, and runs until its input ends. It signs everybody in. What has happened there is at /control/state; /control/expire makes it
forget the access tokens, /control/revoke all tokens, and /control/forget the clients as well, as a restart would.
"""

import secrets
import socket
import sys
import threading
import time
from os import _exit
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse

try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # SDK 1.x
    from mcp.server.fastmcp import FastMCP as Server

LIFETIME = 3600


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.used: set[str] = set()
        self.events: list[str] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.events.append("register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client: OAuthClientInformationFull, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode) -> OAuthToken:
        self.events.append("sign-in")
        del self.codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.used:
            self.events.append("reuse")
            self.revoke_all()
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        self.events.append("refresh")
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        self.used.add(refresh_token.token)
        self.access.clear()
        return self.issue(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.events.append("revoke")
        self.revoke_all()

    def issue(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(), secrets.token_urlsafe()
        owner: dict[str, Any] = {"client_id": client.client_id, "scopes": scopes, "resource": resource}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time()) + LIFETIME, **owner)
        self.refresh[refresh] = RefreshToken(token=refresh, **owner)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFETIME, scope=" ".join(scopes))

    def revoke_all(self) -> None:
        self.access.clear()
        self.refresh.clear()


listener = socket.create_server(("127.0.0.1", 0))
origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
provider = Provider()
server = Server(
    "protected",
    log_level="WARNING",
    auth_server_provider=provider,
    auth=AuthSettings(
        issuer_url=origin,
        resource_server_url=f"{origin}/mcp",
        validate_token_resource=True,
        required_scopes=["read"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
        revocation_options=RevocationOptions(enabled=True),
    ),
)


@server.tool()
async def whoami() -> str:
    """Tells what the token is for."""
    token = get_access_token()
    return f"{' '.join(token.scopes)} at {token.resource}" if token else "nobody"


@server.custom_route("/control/{command}", methods=["GET"])
async def control(request: Request) -> JSONResponse:
    match request.path_params["command"]:
        case "expire":
            provider.access.clear()
        case "revoke":
            provider.revoke_all()
        case "forget":
            provider.revoke_all()
            provider.clients.clear()
    return JSONResponse({"events": provider.events, "tokens": len(provider.access) + len(provider.refresh)})


def end_with_input() -> None:
    sys.stdin.read()
    _exit(0)


threading.Thread(target=end_with_input, daemon=True).start()
print(origin, flush=True)
uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run(sockets=[listener])
