// A certified OpenID Connect provider for tests and for the demo: `oidc-provider`, with a sign-in page of its own. It listens on
// loopback and prints its issuer. The configuration is one line of JSON on standard input, whose end ends the provider:
//
// {"clients": [client metadata], "users": {"paula": {"password": "…", "claims": {"groups": ["/payments"]}}}, "control_token": "…"}
//
// `resources` has the scopes of resources for which access tokens are issued, by the resource's URL. Clients may register themselves,
// and may have the URL of a metadata document as id. `access_token_format` is `jwt` or `opaque`.
//
// Further lines replace members of the configuration; `configured` is printed once they hold. All `claims` of a user are in the ID
// token. Requests to /control/…, with the token as bearer token, change the provider while it runs. Each refresh token is accepted
// once; using one twice ends its session.
import { createServer } from 'node:http'
import { generateKeyPair, randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'

import { Provider, errors } from 'oidc-provider'
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js'

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(0))
const lines = createInterface({ input: process.stdin })
lines.on('close', () => process.exit(0))
const configuration = JSON.parse(await new Promise((resolve) => lines.once('line', resolve)))
const users = new Map(Object.entries(configuration.users ?? {}))
const server = createServer()
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const issuer = `http://127.0.0.1:${server.address().port}`
const cookieKeys = [randomUUID()]
// Sessions and tokens outlast a change of the configuration.
const adapter = createMemoryAdapter()
let keys = [await newKey()]
let provider = newProvider()
let refreshes = 0

server.on('request', async (request, response) => {
  const { pathname, searchParams } = new URL(request.url, issuer)
  try {
    if (pathname.startsWith('/interaction/')) await interaction(request, response)
    else if (pathname.startsWith('/control/')) await control(pathname.slice('/control/'.length), searchParams, request, response)
    else provider.callback()(request, response)
  } catch (error) {
    response.writeHead(500, { 'content-type': 'text/plain' }).end(String(error?.stack ?? error))
  }
})
lines.on('line', (line) => {
  Object.assign(configuration, JSON.parse(line))
  provider = newProvider()
  print('configured')
})
const print = console.log
print(`listening ${issuer}`)
// Nothing reads further lines.
for (const level of ['debug', 'info', 'log', 'warn']) console[level] = console.error

async function newKey() {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), alg: 'RS256', use: 'sig' }
}

function newProvider() {
  const names = [...users.values()].flatMap((user) => Object.keys(user.claims ?? {}))
  const made = new Provider(issuer, {
    adapter,
    clients: configuration.clients,
    jwks: { keys },
    scopes: ['openid', 'offline_access', ...new Set(Object.values(configuration.resources ?? {}).flat())],
    claims: { openid: ['sub', ...new Set([...names, 'preferred_username', 'groups', 'email', 'email_verified', 'department'])] },
    conformIdTokenClaims: false,
    cookies: { keys: cookieKeys },
    findAccount: (_, id) => (users.has(id) && !users.get(id).disabled ? account(id) : undefined),
    issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: () => true,
    // People of the company need not agree that the company's own service knows them.
    loadExistingGrant: async (context) => {
      const grant = new context.oidc.provider.Grant({
        accountId: context.oidc.session.accountId,
        clientId: context.oidc.client.clientId,
      })
      grant.addOIDCScope(`openid profile email offline_access ${context.oidc.params.scope ?? ''}`.trim())
      for (const [resource, server] of Object.entries(context.oidc.resourceServers ?? {})) {
        grant.addResourceScope(resource, server.scope)
      }
      await grant.save()
      return grant
    },
    interactions: { url: (_, current) => `/interaction/${current.uid}` },
    pkce: { required: () => true },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: { enabled: true },
      registration: { enabled: true },
      introspection: { enabled: true, allowedPolicy: (_, client) => client.clientId === 'tracewarden' },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo: (_, resource) => {
          const scopes = configuration.resources?.[resource]
          if (scopes === undefined) throw new errors.InvalidTarget()
          return { audience: resource, scope: scopes.join(' '), accessTokenFormat: configuration.access_token_format ?? 'jwt', accessTokenTTL: 600 }
        },
      },
    },
    extraTokenClaims: (_, token) => token.accountId && account(token.accountId).claims(),
    // The library's own dispatcher refuses addresses of this machine.
    fetch: (address, { dispatcher: _, ...options }) => fetch(address, options),
  })
  made.on('grant.success', (context) => {
    if (context.oidc.params.grant_type === 'refresh_token') refreshes += 1
  })
  made.on('server_error', (_, error) => console.error(error))
  return made
}

function account(id) {
  // `sub` stays the same when a user is renamed, as at real providers.
  const user = users.get(id)
  return { accountId: id, claims: () => ({ preferred_username: id, ...user.claims, sub: user.subject ?? id }) }
}

async function interaction(request, response) {
  const { prompt, params, grantId } = await provider.interactionDetails(request, response)
  if (prompt.name === 'consent') {
    // For programs that run on the person's machine, which anyone can imitate.
    if (request.method === 'POST') return provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true })
    return page(response, 'Allow access', `<p><b>${escaped(params.client_id)}</b> asks for <code>${escaped(params.scope ?? '')}</code></p>
<form method="post"><button type="submit">Allow</button></form>`)
  }
  if (request.method === 'POST') {
    const form = new URLSearchParams(await text(request))
    const user = users.get(form.get('login'))
    if (user && !user.disabled && user.password === form.get('password')) {
      return provider.interactionFinished(request, response, { login: { accountId: form.get('login') } })
    }
  }
  const wrong = request.method === 'POST' ? '<p role="alert">Login or password is wrong.</p>' : ''
  page(response, 'Company sign-in', `${wrong}<form method="post">
<label>Login <input name="login" autocomplete="username" autofocus></label>
<label>Password <input name="password" type="password" autocomplete="current-password"></label>
<button type="submit">Sign in</button></form>`)
}

function page(response, title, content) {
  response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(`<!doctype html>
<html lang="en"><head><title>${title}</title><meta name="viewport" content="width=device-width">
<style>body{font:16px system-ui;display:grid;place-content:center;min-height:90vh;max-width:40em;margin:auto}label{display:block;margin:.5em 0}</style></head>
<body><h1>${title}</h1>${content}</body></html>`)
}

function escaped(text) {
  return text.replace(/[&<>"]/g, (found) => `&#${found.charCodeAt(0)};`)
}

// What administrators of a provider do.
async function control(action, parameters, request, response) {
  if (request.headers.authorization !== `Bearer ${configuration.control_token}`) return response.writeHead(401).end()
  const login = parameters.get('login')
  if (action === 'user') {
    // Replaces a user; an empty body deletes it.
    const body = await text(request)
    if (body === '') users.delete(login)
    else users.set(login, JSON.parse(body))
  } else if (action === 'rotate-keys') {
    // The new key is used at once; the old one is gone.
    keys = [await newKey()]
    provider = newProvider()
  } else if (action === 'logout') {
    // A back-channel logout, of one session or of all of a person.
    const client = await provider.Client.find(parameters.get('client'))
    client.backchannelLogoutSessionRequired = parameters.has('session')
    await client.backchannelLogout(users.get(login)?.subject ?? login, parameters.get('session') ?? undefined)
  } else if (action === 'refreshes') {
    // How many refresh tokens were accepted.
    return response.writeHead(200).end(String(refreshes))
  } else {
    return response.writeHead(404).end()
  }
  response.writeHead(204).end()
}

async function text(stream) {
  let all = ''
  for await (const chunk of stream) all += chunk
  return all
}
