package event

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrSignature is a delivery without a valid signature.
	ErrSignature = errors.New("the signature is missing or wrong")
	// ErrStale is a delivery whose signed time is too far in the past or
	// future.
	ErrStale = errors.New("the signature's time is too far from now")
)

// Header returns the value of a header that occurs once. Several values are
// refused, because the sender's intent is ambiguous.
func Header(h http.Header, name string) (value string, ok bool) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" {
		return "", false
	}
	return values[0], true
}

// VerifyHex compares a signature, the prefix and then hex in either case, with
// the HMAC-SHA256 of the parts under each of the secrets, in constant time. An
// empty secret verifies nothing, since anybody can sign with it.
func VerifyHex(signature, prefix string, secrets [][]byte, parts ...[]byte) error {
	digits, ok := strings.CutPrefix(signature, prefix)
	given, err := hex.DecodeString(digits)
	if !ok || err != nil || len(given) != sha256.Size {
		return ErrSignature
	}
	found := false
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue
		}
		mac := hmac.New(sha256.New, secret)
		for _, part := range parts {
			mac.Write(part)
		}
		found = hmac.Equal(mac.Sum(nil), given) || found
	}
	if !found {
		return ErrSignature
	}
	return nil
}

// CheckTimestamp returns nil if at is within tolerance of now, and [ErrStale]
// otherwise.
func CheckTimestamp(at, now time.Time, tolerance time.Duration) error {
	if d := now.Sub(at); d > tolerance || d < -tolerance {
		return ErrStale
	}
	return nil
}

// EqualSecret reports whether given is one of the secrets, in constant time.
// Empty values match nothing.
func EqualSecret(given string, secrets [][]byte) bool {
	hash, found := sha256.Sum256([]byte(given)), 0
	for _, secret := range secrets {
		if len(secret) == 0 {
			continue
		}
		want := sha256.Sum256(secret)
		found |= subtle.ConstantTimeCompare(hash[:], want[:])
	}
	return found == 1
}

// VerifyStandard returns nil when a delivery was signed as Standard Webhooks has
// it: one header each of webhook-id, webhook-timestamp (in seconds) and
// webhook-signature, a list of signatures by one of the secrets or more. A
// secret that begins with whsec_ is base64 of the key, any other is the key. An
// empty key verifies nothing. Errors are [ErrSignature] and [ErrStale].
func VerifyStandard(h http.Header, body []byte, secrets [][]byte, now time.Time, tolerance time.Duration) error {
	id, _ := Header(h, "Webhook-Id")
	sent, _ := Header(h, "Webhook-Timestamp")
	list, _ := Header(h, "Webhook-Signature")
	seconds, err := strconv.ParseInt(sent, 10, 64)
	// With a full stop in it, what was signed as body could be read as a time.
	if id == "" || strings.Contains(id, ".") || err != nil {
		return ErrSignature
	}
	given := standardDigests(list)
	found := false
	for _, secret := range secrets {
		want := standardDigest(id, sent, body, secret)
		for _, digest := range given {
			found = want != nil && hmac.Equal(want, digest) || found
		}
	}
	if !found {
		return ErrSignature
	}
	return CheckTimestamp(time.Unix(seconds, 0), now, tolerance)
}

// SignStandard returns what goes into webhook-signature of a delivery whose
// webhook-id is id, without a full stop, and whose webhook-timestamp is at in
// seconds. It is empty when the secret has no key in it, see [VerifyStandard]:
// such a delivery is not to be sent.
func SignStandard(id string, at time.Time, body, secret []byte) string {
	digest := standardDigest(id, strconv.FormatInt(at.Unix(), 10), body, secret)
	if digest == nil {
		return ""
	}
	return "v1," + base64.StdEncoding.EncodeToString(digest)
}

// standardDigests parses the signature header. Signatures of other versions
// are ignored.
func standardDigests(list string) (all [][]byte) {
	for _, one := range strings.Fields(list) {
		text, ok := strings.CutPrefix(one, "v1,")
		digest, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && len(digest) == sha256.Size {
			all = append(all, digest)
		}
	}
	return all
}

// standardDigest returns nil without a key.
func standardDigest(id, sent string, body, secret []byte) []byte {
	key := standardKey(secret)
	if len(key) == 0 {
		return nil
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + sent + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

func standardKey(secret []byte) []byte {
	text, ok := bytes.CutPrefix(secret, []byte("whsec_"))
	if !ok {
		return secret
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(text), "="))
	if err != nil {
		return nil
	}
	return key
}
