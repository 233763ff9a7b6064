package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"sallyport/action"
)

// The prefixes of credentials.
const (
	SessionPrefix = "sps_"
	APIKeyPrefix  = "spk_"
)

// KeySize is the length of a signing key in bytes.
const KeySize = 32

// A session token is, in base64: version, key id, MAC, session id.
const (
	version         = 1
	keyIDLen        = 4
	tokenHeaderSize = 1 + keyIDLen + sha256.Size
	maxTokenLength  = 512
)

// strictBase64 accepts exactly one encoding of each value, except for line
// breaks, which callers reject.
var strictBase64 = base64.RawURLEncoding.Strict()

// Signer issues and verifies session tokens.
type Signer struct {
	keys []signingKey // the first signs
}

type signingKey struct {
	id  [keyIDLen]byte
	mac []byte
}

// NewSigner returns a signer that signs with key and also accepts signatures of
// older keys. Each has [KeySize] random bytes.
func NewSigner(key []byte, older ...[]byte) (*Signer, error) {
	s := &Signer{}
	for _, k := range slices.Concat([][]byte{key}, older) {
		if len(k) != KeySize {
			return nil, fmt.Errorf("a token key has %d bytes, not %d", KeySize, len(k))
		}
		mac, err := hkdf.Key(sha256.New, k, nil, "sallyport session token", KeySize)
		if err != nil {
			return nil, fmt.Errorf("deriving the token key: %w", err)
		}
		sum := sha256.Sum256(k)
		s.keys = append(s.keys, signingKey{id: [keyIDLen]byte(sum[:]), mac: mac})
	}
	return s, nil
}

// Mint returns a token for a session.
func (s *Signer) Mint(sessionID string) string {
	key := &s.keys[0]
	raw := make([]byte, 0, tokenHeaderSize+len(sessionID))
	raw = append(raw, version)
	raw = append(raw, key.id[:]...)
	raw = append(raw, key.sign(sessionID)...)
	raw = append(raw, sessionID...)
	return SessionPrefix + strictBase64.EncodeToString(raw)
}

// Verify returns the ID of the session that a token was issued for. The error
// is an [action.Error] of kind ErrUnauthenticated.
func (s *Signer) Verify(token string) (sessionID string, err error) {
	text, ok := strings.CutPrefix(token, SessionPrefix)
	if !ok || len(token) > maxTokenLength || strings.ContainsAny(text, "\r\n") {
		return "", invalidToken("This is not a session token; those begin with " + SessionPrefix + ". Ask the person who runs the gateway for one.")
	}
	raw, err := strictBase64.DecodeString(text)
	if err != nil || len(raw) <= tokenHeaderSize || raw[0] != version {
		return "", invalidToken("This session token is incomplete or altered; copy it again, or ask for a new one.")
	}
	keyID, mac, id := raw[1:1+keyIDLen], raw[1+keyIDLen:tokenHeaderSize], string(raw[tokenHeaderSize:])
	for i := range s.keys {
		if key := &s.keys[i]; string(key.id[:]) == string(keyID) && hmac.Equal(mac, key.sign(id)) {
			return id, nil
		}
	}
	return "", invalidToken("This session token was not issued by this gateway, or its signing key has been replaced; ask for a new one.")
}

func (k *signingKey) sign(sessionID string) []byte {
	mac := hmac.New(sha256.New, k.mac)
	mac.Write([]byte{version})
	mac.Write(k.id[:])
	mac.Write([]byte(sessionID))
	return mac.Sum(nil)
}

func invalidToken(message string) error {
	return action.Errorf(action.ErrUnauthenticated, "invalid_token", "%s", message)
}
