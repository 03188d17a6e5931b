// A real authorization server (oidc-provider), with an MCP server's face in front that accepts only its tokens.
// node oidc_provider.mjs PEERS: prints its origin, and runs until its input ends.

import { createRequire } from 'node:module'
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

const require = createRequire(`${process.argv[2]}/node/x.js`)
const { Provider } = await import(pathToFileURL(require.resolve('oidc-provider')))

const server = createServer()
await new Promise(done => server.listen(0, '127.0.0.1', done))
const origin = `http://127.0.0.1:${server.address().port}`
const resource = `${origin}/mcp`

const provider = new Provider(origin, {
  scopes: ['offline_access', 'read', 'write'],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    deviceFlow: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error(`unknown resource ${indicator}`)
        return { scope: 'read write', audience: resource, accessTokenTTL: 3600, accessTokenFormat: 'opaque' }
      },
      useGrantedResource: () => true
    }
  }
})

const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`
const json = (response, status, body, headers = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(JSON.stringify(body))
}
const handle = provider.callback()
server.on('request', async (request, response) => {
  const { pathname } = new URL(request.url, origin)
  if (pathname === '/.well-known/oauth-protected-resource/mcp') {
    json(response, 200, { resource, authorization_servers: [origin], scopes_supported: ['read', 'write'] })
  } else if (pathname === '/mcp') {
    const value = request.headers.authorization?.replace(/^Bearer /, '')
    const token = value && await provider.AccessToken.find(value)
    if (token?.aud === resource) json(response, 200, { scope: token.scope })
    else json(response, 401, {}, { 'www-authenticate': `Bearer resource_metadata="${metadata}", scope="read"` })
  } else {
    handle(request, response)
  }
})
console.log(origin)
process.stdin.resume().on('end', () => process.exit())
