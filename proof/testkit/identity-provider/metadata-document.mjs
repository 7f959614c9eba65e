// Serves the metadata document of a client over HTTPS, on loopback: `node metadata-document.mjs CERTIFICATE KEY`. It prints the
// address of the document, which is the client's id. The end of standard input ends it.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'

const [certificate, key] = process.argv.slice(2)
process.stdin.on('close', () => process.exit(0)).resume()
const server = createServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (_, response) => {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({
    client_id: url,
    client_name: 'A program of the person',
    application_type: 'native',
    redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  }))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `https://localhost:${server.address().port}/client.json`
console.log(`listening ${url}`)
