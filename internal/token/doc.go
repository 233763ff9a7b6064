// Package token issues and verifies the gateway's credentials: session tokens
// for agents, API keys for programs, and random secrets such as cookies and
// login links.
//
// A session token is `sps_` and a signed session ID. It is not stored and
// proves only the ID; the session's row tells whether the session is live. An
// API key is `spk_`, the ID of its row and 32 random bytes; only its hash is
// stored. Secret scanners and the gateway's redaction recognize the prefixes.
//
// Only the exact token that was issued verifies, comparisons take constant
// time, and errors never contain a credential.
package token
