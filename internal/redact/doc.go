// Package redact cleans what is kept, logged and shown of secrets, cuts what
// is kept to size, and tells it in a line.
//
// Three things count as secret. First, what is at the place of one: the value
// of a member whose name says so (password, GITHUB_TOKEN, X-Api-Key, whatever
// its case and punctuation; next_page_token stays), of a member that another
// one names ({"name": "Authorization", "value": …}), the rest of a header's
// line, the user of a URL, what follows password= or --token. Second, what has
// the shape of a known credential. Third, the credentials that the caller
// knows of, also in base64 and hex. All of it is found in strings, in names,
// in JSON that is in a string or in a longer text, and under the escapes of
// JSON, URLs and HTML, up to some layers.
//
// A secret becomes [redacted:LENGTH:HASH], its length in bytes and the start
// of its keyed hash, so that a person can tell equal from different without
// knowing either.
//
// It promises valid JSON, with everything that is not replaced as it was:
// order, digits, white space. It does not find a secret that was disguised on
// purpose (reversed, encrypted, split over several strings), nor a known one
// shorter than [MinSecret] bytes, which would be found everywhere. A known one
// that has escapes of its own in it is found under layers of one kind only.
package redact
