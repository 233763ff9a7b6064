// Package wire reads and writes the Model Context Protocol as bytes: JSON-RPC
// envelopes and errors, JSON objects whose values stay raw, the headers of
// streamable HTTP, and answers that are plain JSON or an event stream.
//
// It promises that a value is passed on as the bytes that were received: number
// lexemes, key order and unknown members survive. It is strict about syntax, so
// that every message that it accepts means the same to every other parser.
//
// It knows no sessions, no tools and no policy.
package wire
