// Package dashboard is the way in for people and programs over HTTP: the JSON
// API under /api/v1, its live events, and the web page.
//
// It promises: every route names in one table who may use it, and a route
// that the table does not name cannot be registered; who decided is read from
// the credential and never from a body; a browser's cookie only reads, every
// change needs the key that lives in the page's own storage, and the exact
// Origin; GET changes nothing; raw JSON leaves with every digit that it came
// with; an unknown error says nothing of itself outside and everything in the
// log.
//
// It does not decide, hold or execute: it asks the Gate. It knows no rows: it
// asks for them through the interfaces in ports.go.
package dashboard
