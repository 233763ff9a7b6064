// Package files keeps bytes that are no rows: in a folder of this machine, or in
// a bucket of anything that speaks S3.
//
// It promises that a file is there whole, with the digest that was announced, or
// not at all. It does not know whose a file is, and forgets nothing by itself:
// its callers choose the keys, and remove what nobody needs.
package files
