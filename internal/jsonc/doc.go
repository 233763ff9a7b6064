// Package jsonc changes JSON that people wrote: files of configuration, in
// which comments and trailing commas may stand.
//
// It promises that whatever is not changed stays byte for byte: comments, the
// order of keys, the digits of numbers, white space. What it adds is written in
// the manner of what stands around it. What it cannot change without a loss it
// refuses.
package jsonc
