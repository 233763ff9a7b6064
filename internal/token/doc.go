// Package token makes and checks the credentials that the gateway hands out:
// session tokens for agents, API keys for programs, and random secrets such
// as cookies and login links.
//
// A session token is `sps_` and a signed session id: nothing of it is stored,
// and it proves the id and nothing else. That the session still lives is for
// its row to say. An API key is `spk_`, the id of its row and 32 random bytes;
// only its hash is stored. The prefixes are there for scanners and for our own
// redaction.
//
// It promises that no text but the one minted verifies, comparisons take the
// same time wherever they fail, and no error holds any of the credential.
package token
