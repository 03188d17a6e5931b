// A real authorization server (oidc-provider), and an MCP server (the official SDK) that accepts only its tokens.
// node oidc_provider.mjs PEERS: prints its origin, and runs until its input ends. GET /mcp tells the scope of a token, /expire?token= ends
// the life of one.

import { createRequire } from 'node:module'
import { createServer } from 'node:http'
import { pathToFileURL } from 'node:url'

const require = createRequire(`${process.argv[2]}/node/x.js`)
const load = name => import(pathToFileURL(require.resolve(name)))
const { Provider } = await load('oidc-provider')
const { McpServer } = await load('@modelcontextprotocol/sdk/server/mcp.js')
const { StreamableHTTPServerTransport } = await load('@modelcontextprotocol/sdk/server/streamableHttp.js')

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
// Answers one request of MCP, without a session.
const answer = async (request, response, token) => {
  const mcp = new McpServer({ name: 'protected', version: '1' })
  mcp.registerTool('whoami', {}, () => ({ content: [{ type: 'text', text: `${token.accountId}: ${token.scope}` }] }))
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined, enableJsonResponse: true })
  await mcp.connect(transport)
  await transport.handleRequest(request, response)
}
const handle = provider.callback()
server.on('request', async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, origin)
  if (pathname === '/.well-known/oauth-protected-resource/mcp') {
    json(response, 200, { resource, authorization_servers: [origin], scopes_supported: ['read', 'write'] })
  } else if (pathname === '/mcp') {
    const value = request.headers.authorization?.replace(/^Bearer /, '')
    const token = value && await provider.AccessToken.find(value)
    if (token?.aud === resource && request.method === 'GET') json(response, 200, { scope: token.scope })
    else if (token?.aud === resource) await answer(request, response, token)
    else json(response, 401, {}, { 'www-authenticate': `Bearer resource_metadata="${metadata}", scope="read"` })
  } else if (pathname === '/expire') {
    const token = await provider.AccessToken.find(searchParams.get('token'))
    await token.destroy()
    json(response, 200, {})
  } else {
    handle(request, response)
  }
})
console.log(origin)
process.stdin.resume().on('end', () => process.exit())
