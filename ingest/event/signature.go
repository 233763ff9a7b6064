package event

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
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
