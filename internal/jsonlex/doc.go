// Package jsonlex scans the tokens of JSON text (white space, strings, numbers
// and literals) by their position in a byte slice. The packages that rewrite
// raw JSON share it.
//
// It accepts exactly the grammar of RFC 8259 for each token, never reads
// outside the slice, and allocates only for errors. It builds no values;
// callers that follow nesting limit its depth.
package jsonlex
