// Package redact replaces secrets in what is stored, logged and shown, prunes
// documents to a size limit, and summarizes them in one line.
//
// It recognizes three kinds of secret. First, by place: the value of a member
// whose name indicates one (password, GITHUB_TOKEN, X-Api-Key, regardless of
// case and punctuation; next_page_token is kept), of a member that another one
// names ({"name": "Authorization", "value": …}), the rest of a header line,
// the userinfo of a URL, and what follows password= or --token. Second, by
// shape: the formats of known credentials. Third, by value: the credentials
// that the caller passes, also in base64 and hex. It searches strings, names,
// JSON within a string or a longer text, and text under several layers of JSON,
// URL and HTML escapes.
//
// A secret becomes [redacted:LENGTH:HASH], its length in bytes and the start of
// its keyed hash, so that a person can compare values without knowing them.
//
// The result is valid JSON, and everything else stays byte for byte: order,
// digits, white space. It does not find a secret that was disguised on purpose
// (reversed, encrypted, split over several strings), or a known one shorter
// than [MinSecret] bytes, which would match everywhere. It finds a known secret
// that itself contains escapes only under layers of one kind.
package redact
