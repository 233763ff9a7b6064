package token

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"time"

	"sallyport/internal/canonical"
)

const (
	// RequestStateGrace is how long a requestState is valid after its round has
	// ended, so that a late client still gets the outcome of its call.
	RequestStateGrace = 15 * time.Minute
	// maxState bounds a requestState: sources choose the keys in it, of any length.
	maxState = 256 << 10
)

// RequestState is the content of a requestState of the stateless protocol: the call
// that it belongs to, and what the client was asked. Clients return it unchanged.
type RequestState struct {
	Principal  []byte   `json:"principal"`
	Call       []byte   `json:"call"` // see CallDigest
	Invocation string   `json:"invocation"`
	Round      string   `json:"round"` // empty: the client was asked to open the approval page
	Keys       []string `json:"keys"`
	Until      int64    `json:"until"` // in Unix seconds
}

// RequestStates seals and opens request states. Every instance that has the key can
// continue the calls of the others.
type RequestStates struct{ box cipher.AEAD }

// NewRequestStates derives a separate key from the secret, so that no other use of
// the secret can forge a state.
func NewRequestStates(secret []byte) (RequestStates, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "sallyport mcp request state", 32)
	if err != nil {
		return RequestStates{}, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return RequestStates{}, err
	}
	box, err := cipher.NewGCMWithRandomNonce(block)
	return RequestStates{box: box}, err
}

// Seal returns the state as clients get it. It returns false if the result would be
// too large for Open.
func (k RequestStates) Seal(a *RequestState) (text string, ok bool) {
	plain, _ := json.Marshal(a) // strings, bytes and a number always encode
	text = stateEncoding().EncodeToString(k.box.Seal(nil, nil, plain, nil))
	return text, len(text) <= maxState
}

// Open returns the state if it is authentic and has not expired. It reads nothing
// before the authentication.
func (k RequestStates) Open(text string, now time.Time) (a RequestState, ok bool) {
	if len(text) > maxState {
		return a, false
	}
	sealed, err := stateEncoding().DecodeString(text)
	// The decoder skips line breaks, but a state has exactly one spelling.
	if err != nil || stateEncoding().EncodedLen(len(sealed)) != len(text) {
		return a, false
	}
	plain, err := k.box.Open(nil, nil, sealed, nil)
	if err != nil || json.Unmarshal(plain, &a) != nil {
		return a, false
	}
	return a, now.Unix() < a.Until
}

func stateEncoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// CallDigest identifies a call by method, name and arguments, in whatever form the
// arguments are written.
func CallDigest(method, name string, arguments []byte) []byte {
	if c, err := canonical.JSON(arguments); err == nil {
		arguments = c
	}
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(name), arguments} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	return h.Sum(nil)
}
