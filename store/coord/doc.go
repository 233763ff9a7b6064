// Package coord carries hints and counts calls between the parts of one
// process. Nothing here is truth: a lost hint costs time, a lost count is
// forgiven.
//
// It starts no goroutine. Package coordtest holds the suite that these and
// every other implementation pass.
package coord
