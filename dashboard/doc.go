// Package dashboard is the HTTP server for people and programs. The server, its
// roles and the sign-in are here; the JSON API under /api/v1 is in routes, the
// web page in page, what both read in view.
//
// Guarantees:
//   - Every route declares who may use it; a route without a role cannot be
//     registered, and a role without a route fails the start.
//   - Who made a decision comes from the credential, never from a body.
//   - A browser's cookie only reads. A change also needs the key in the page's
//     own storage and the exact Origin. GET changes nothing.
//   - Raw JSON keeps every digit.
//   - The details of an unexpected error go to the log and not to the client.
//
// The package does not decide, hold or execute calls: the Gate does. It reads
// and writes rows through the interfaces in ports.go and its siblings.
package dashboard
