package mcpserver

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

// The id of an MCP session of the older era says everything that an instance
// needs to go on with it, so that none has to ask another:
//
//	format 1 byte · random 16 · issued 8 · principal 16 · capabilities 2 ·
//	protocol version, client name, client version, each after its length · MAC 16
//
// in URL-safe base64. What the client chose is cut, so an id never has more
// than maxSessionID characters.
const (
	idFormat     = 1
	idMAC        = 16
	idText       = 64
	maxSessionID = 512
)

// sessionIDs mints and reads ids.
type sessionIDs struct {
	key  []byte
	life time.Duration
}

// newSessionIDs derives a key of its own, so that no other use of the secret
// can make an id.
func newSessionIDs(secret []byte, life time.Duration) (sessionIDs, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "sallyport mcp session id", sha256.Size)
	return sessionIDs{key: key, life: life}, err
}

// identity is what an id says.
type identity struct {
	issued    time.Time // to the second
	principal principal
	can       capabilities
	version   string // of the protocol, as it was agreed
	client    string // its name
	release   string // its version
}

// principal is the hash of a gateway session's id, which may be of any length.
type principal [16]byte

func principalOf(s *action.Session) (p principal) {
	sum := sha256.Sum256([]byte(s.Organization + "\x00" + s.ID))
	copy(p[:], sum[:])
	return p
}

// mint returns a new id.
func (k *sessionIDs) mint(who *identity) string {
	var random [16]byte
	rand.Read(random[:]) //nolint:errcheck // never fails: it ends the process instead
	b := who.appendTo(make([]byte, 0, maxSessionID), random)
	return idEncoding().EncodeToString(append(b, k.mac(b)...))
}

// appendTo appends the part of an id that is signed.
func (who *identity) appendTo(b []byte, random [16]byte) []byte {
	b = append(append(b, idFormat), random[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(who.issued.Unix()))
	b = append(b, who.principal[:]...)
	b = binary.BigEndian.AppendUint16(b, uint16(who.can))
	for _, text := range []string{who.version, who.client, who.release} {
		text = text[:min(len(text), idText)]
		text = strings.ToValidUTF8(text, "")
		b = append(append(b, byte(len(text))), text...)
	}
	return b
}

// read returns what an id says, if it is one of ours and still good. Nothing
// of it is looked at before its MAC.
func (k *sessionIDs) read(id string, now time.Time) (who identity, ok bool) {
	if len(id) > maxSessionID {
		return who, false
	}
	raw, err := idEncoding().DecodeString(id)
	// The decoder skips line breaks; an id has one spelling.
	if err != nil || idEncoding().EncodedLen(len(raw)) != len(id) || len(raw) <= idMAC {
		return who, false
	}
	b, mac := raw[:len(raw)-idMAC], raw[len(raw)-idMAC:]
	if !hmac.Equal(mac, k.mac(b)) || b[0] != idFormat {
		return who, false
	}
	who, ok = parseIdentity(b)
	return who, ok && now.Before(k.end(who.issued))
}

// end is when an id that was issued then is good no longer.
func (k *sessionIDs) end(issued time.Time) time.Time { return issued.Add(k.life) }

func (k *sessionIDs) mac(b []byte) []byte {
	h := hmac.New(sha256.New, k.key)
	h.Write(b)
	return h.Sum(nil)[:idMAC]
}

func idEncoding() *base64.Encoding { return base64.RawURLEncoding.Strict() }

// parseIdentity reads the part of an id that is signed.
func parseIdentity(b []byte) (who identity, ok bool) {
	const fixed = 1 + 16 + 8 + 16 + 2
	if len(b) < fixed {
		return who, false
	}
	b = b[1+16:]
	who.issued = time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
	copy(who.principal[:], b[8:])
	who.can = capabilities(binary.BigEndian.Uint16(b[8+16:]))
	b = b[8+16+2:]
	for _, text := range []*string{&who.version, &who.client, &who.release} {
		if len(b) == 0 || b[0] > idText || len(b) < 1+int(b[0]) {
			return who, false
		}
		*text, b = string(b[1:1+b[0]]), b[1+b[0]:]
	}
	return who, len(b) == 0
}

// state is the session as the SDK shall know it: its client has said
// everything that one says at the beginning.
func (who *identity) state() *mcp.ServerSessionState {
	return &mcp.ServerSessionState{
		InitializeParams: &mcp.InitializeParams{
			ProtocolVersion: who.version, Capabilities: who.can.forSDK(),
			ClientInfo: &mcp.Implementation{Name: who.client, Version: who.release},
		},
		InitializedParams:         &mcp.InitializedParams{},
		NegotiatedProtocolVersion: who.version,
	}
}

// sessionName is the hash of a session's id. It names the session where the
// id, which is a credential, must not appear.
type sessionName [sha256.Size]byte

func nameOfSession(id string) sessionName { return sha256.Sum256([]byte(id)) }

// String returns the name as peers are told it.
func (n sessionName) String() string { return hex.EncodeToString(n[:]) }

// parseSessionName reads a name that a peer told.
func parseSessionName(text string) (n sessionName, ok bool) {
	if len(text) != hex.EncodedLen(len(n)) {
		return n, false
	}
	_, err := hex.Decode(n[:], []byte(text))
	return n, err == nil
}
