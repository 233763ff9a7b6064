// Package redact cleans what is kept, logged and shown of secrets, and cuts
// what is kept to size.
//
// Three things count as secret: the value of a member whose name says so
// (password, token, authorization and their kin, whatever their case and
// punctuation, but only as whole names: next_page_token stays); text in the
// shape of a known credential, in strings and in names; and the credentials
// that the caller knows of, also in base64, percent-encoded or escaped. A
// string that is itself JSON, as tools like to answer, is cleaned like JSON.
//
// A secret becomes [redacted:LENGTH:HASH], its length in bytes and the start
// of its keyed hash, so that a person can tell equal from different without
// knowing either.
//
// It promises valid JSON, with everything that is not replaced as it was:
// order, digits, white space. It does not find a secret that was disguised on
// purpose (reversed, encrypted, split over several strings), nor a known one
// shorter than [MinSecret] bytes, which would be found everywhere.
package redact
