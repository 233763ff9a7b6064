// Package credential has the tokens that the gateway sends. [OAuth] has those of
// connectors: it signs in to the authorization servers of remote MCP servers by
// OAuth 2.1, as an admin began it (authorization code) or by itself (client
// credentials), and renews what it was given before it ends. [Tokens] has those
// of integrations, whatever they are: keys, bots' tokens, sign-ins of our own
// or of Nango, installations of a GitHub App.
//
// It promises: tokens, client secrets and verifiers are stored sealed and are
// in no error and no log; a token goes to the host that it was had for and to
// no other, and to no path that it was not had for; a sign-in is ended once, by
// the person who began it, with an answer of the very authorization server that
// was asked; a token is renewed once, however many callers and instances need
// it, and whoever waits for that may leave; everything is asked through the
// guarded client, in bounded size and time, and a request with a credential
// follows no redirect.
//
// It opens no browser and serves no page: whoever calls Begin leads the person
// to the URL, and passes to Finish what came back. It signs no assertions
// (private_key_jwt, DPoP).
//
// It does not use golang.org/x/oauth2: connectors and integrations share one
// exchange, which needs resource indicators, discovered metadata and a guarded
// client that reads a bounded body, and one place that knows what is a final no.
package credential
