// Package files stores blobs, in a folder on this machine or in an S3 bucket.
//
// It promises that a blob is stored whole, with the digest that was announced, or
// not at all. It has no notion of owners and expires nothing: callers choose the
// keys and remove what is no longer needed.
package files
