package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sallyport/action"
)

// The id of an MCP session contains everything that an instance needs to continue
// the session, so instances need not ask each other:
//
//	format 1 byte · random 16 · issued 8 · principal 16 · Capabilities 2 ·
//	protocol version, client name, client version, each after its length · MAC 16
//
// in URL-safe base64. Texts that the client chose are truncated, so an id never has
// more than maxSessionID characters.
const (
	idFormat     = 1
	macSize      = 16
	maxIDText    = 64
	maxSessionID = 512
)

// SessionIDs issues and verifies session ids.
type SessionIDs struct {
	key  []byte
	life time.Duration
}

// NewSessionIDs derives a separate key from the secret, so that no other use of the
// secret can forge an id.
func NewSessionIDs(secret []byte, life time.Duration) (SessionIDs, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "sallyport mcp session id", sha256.Size)
	return SessionIDs{key: key, life: life}, err
}

// Session is the content of a session id.
type Session struct {
	IssuedAt      time.Time // in whole seconds
	Principal     Principal
	Capabilities  Capabilities
	Protocol      string // the negotiated version
	ClientName    string
	ClientVersion string
}

// Principal is the hash of a gateway session's organization and id.
type Principal [16]byte

// PrincipalOf returns the principal of a gateway session.
func PrincipalOf(s *action.Session) (p Principal) {
	sum := sha256.Sum256([]byte(s.Organization + "\x00" + s.ID))
	copy(p[:], sum[:])
	return p
}

// Issue returns a new id.
func (k *SessionIDs) Issue(s *Session) string {
	var random [16]byte
	rand.Read(random[:]) //nolint:errcheck // never fails: it ends the process instead
	b := s.appendTo(make([]byte, 0, maxSessionID), random)
	return idEncoding().EncodeToString(append(b, k.mac(b)...))
}

// appendTo appends the signed part of an id.
func (s *Session) appendTo(b []byte, random [16]byte) []byte {
	b = append(append(b, idFormat), random[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.IssuedAt.Unix()))
	b = append(b, s.Principal[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(s.Capabilities))
	for _, text := range []string{s.Protocol, s.ClientName, s.ClientVersion} {
		text = text[:min(len(text), maxIDText)]
		text = strings.ToValidUTF8(text, "")
		b = append(append(b, byte(len(text))), text...)
	}
	return b
}

// Parse returns the content of an id if it is authentic and has not expired. It
// reads nothing before the MAC was verified.
func (k *SessionIDs) Parse(id string, now time.Time) (s Session, ok bool) {
	if len(id) > maxSessionID {
		return s, false
	}
	raw, err := idEncoding().DecodeString(id)
	// The decoder skips line breaks, but an id has exactly one spelling.
	if err != nil || idEncoding().EncodedLen(len(raw)) != len(id) || len(raw) <= macSize {
		return s, false
	}
	b, mac := raw[:len(raw)-macSize], raw[len(raw)-macSize:]
	if !hmac.Equal(mac, k.mac(b)) || b[0] != idFormat {
		return s, false
	}
	s, ok = parseSession(b)
	return s, ok && now.Before(k.Expiry(s.IssuedAt))
}

// Expiry returns when an id that was issued then expires.
func (k *SessionIDs) Expiry(issued time.Time) time.Time { return issued.Add(k.life) }

func (k *SessionIDs) mac(b []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write(b)
	return h.Sum(nil)[:macSize]
}

func idEncoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// parseSession parses the signed part of an id.
func parseSession(b []byte) (s Session, ok bool) {
	const fixed = 1 + 16 + 8 + 16 + 2
	if len(b) < fixed {
		return s, false
	}
	b = b[1+16:]
	s.IssuedAt = time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
	copy(s.Principal[:], b[8:])
	s.Capabilities = Capabilities(binary.BigEndian.Uint16(b[8+16:]))
	b = b[8+16+2:]
	for _, text := range []*string{&s.Protocol, &s.ClientName, &s.ClientVersion} {
		if len(b) == 0 || b[0] > maxIDText || len(b) < 1+int(b[0]) {
			return s, false
		}
		*text, b = string(b[1:1+b[0]]), b[1+b[0]:]
	}
	return s, len(b) == 0
}

// SDKState returns the SDK's state of an initialized session.
func (s *Session) SDKState() *mcp.ServerSessionState {
	return &mcp.ServerSessionState{
		InitializeParams: &mcp.InitializeParams{
			ProtocolVersion: s.Protocol, Capabilities: s.Capabilities.forSDK(),
			ClientInfo: &mcp.Implementation{Name: s.ClientName, Version: s.ClientVersion},
		},
		InitializedParams:         &mcp.InitializedParams{},
		NegotiatedProtocolVersion: s.Protocol,
	}
}

// SessionHash is the hash of a session id. It names the session where the id must
// not appear, because the id is a credential.
type SessionHash [sha256.Size]byte

// HashSessionID returns the hash of a session id.
func HashSessionID(id string) SessionHash { return sha256.Sum256([]byte(id)) }

// String returns the hash in the form that peers exchange.
func (n SessionHash) String() string { return hex.EncodeToString(n[:]) }

// ParseSessionHash parses a hash that a peer sent.
func ParseSessionHash(text string) (n SessionHash, ok bool) {
	if len(text) != hex.EncodedLen(len(n)) {
		return n, false
	}
	_, err := hex.Decode(n[:], []byte(text))
	return n, err == nil
}
