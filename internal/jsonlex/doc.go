// Package jsonlex reads the pieces of JSON text: white space, strings,
// numbers and literals, each by its position in a byte slice. It is what the
// packages that rewrite raw JSON have in common.
//
// It promises to accept exactly the grammar of RFC 8259 in each piece, never
// to read outside the slice, and to allocate only for errors. It builds no
// values and knows nothing of nesting: its users walk, and bound the depth.
package jsonlex
