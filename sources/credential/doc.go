// Package credential provides the tokens that the gateway sends. [OAuth] holds
// those of connectors: it signs in to the authorization servers of remote MCP
// servers with OAuth 2.1, started by an admin (authorization code) or on its
// own (client credentials), and renews tokens before they expire. [Tokens]
// holds those of integrations: API keys, bot tokens, OAuth sign-ins of the
// gateway or of Nango, GitHub App installations.
//
// It guarantees: tokens, client secrets and verifiers are stored sealed and
// appear in no error and no log; a token is sent only to the host and path it
// was issued for; a sign-in is completed once, by the person who began it, with
// an answer of the authorization server that was asked; a token is renewed once
// for all callers and instances, and a waiting caller can leave; all requests
// use the guarded client, with bounded size and time, and requests with a
// credential follow no redirects.
//
// It opens no browser and serves no page: the caller of Begin sends the person
// to the URL, and passes the result to Finish. It signs no assertions
// (private_key_jwt, DPoP).
//
// It does not use golang.org/x/oauth2: connectors and integrations share one
// token exchange, which needs resource indicators, discovered metadata and a
// guarded client with bounded bodies, and one definition of a permanent error.
package credential
