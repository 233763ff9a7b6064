package cloudlogs

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
)

// digest is a truncated hash. The digest of a file covers its first line, so it
// survives renaming and compression.
type digest [8]byte

func digestOf(parts ...[]byte) digest {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p))))
		h.Write(p)
	}
	return digest(h.Sum(nil)[:8])
}

// Type tags of encoded tokens.
const (
	kindID     = 1
	kindCursor = 2
)

// id locates an entry and identifies its content.
type id struct {
	service string
	file    digest
	offset  int64
	hash    digest
}

func (i id) String() string {
	b := append([]byte{kindID}, i.file[:]...)
	b = append(b, i.hash[:]...)
	b = binary.AppendUvarint(b, uint64(i.offset)) //nolint:gosec // it is not negative
	return base64.RawURLEncoding.EncodeToString(append(b, i.service...))
}

// parseID parses the result of [id.String].
func parseID(s string) (i id, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 18 || b[0] != kindID {
		return id{}, false
	}
	i.file, i.hash = digest(b[1:9]), digest(b[9:17])
	offset, n := binary.Uvarint(b[17:])
	if n <= 0 || offset > 1<<62 {
		return id{}, false
	}
	i.offset, i.service = int64(offset), string(b[17+n:])
	return i, i.String() == s
}

func (p position) cursor() string {
	b := binary.BigEndian.AppendUint64([]byte{kindCursor}, uint64(p.time)) //nolint:gosec // read back the same way
	b = binary.AppendUvarint(append(b, p.file[:]...), uint64(p.offset))    //nolint:gosec // it is not negative
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor parses the result of [position.cursor].
func parseCursor(s string) (p position, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) < 18 || b[0] != kindCursor {
		return position{}, false
	}
	offset, n := binary.Uvarint(b[17:])
	if n <= 0 || offset > 1<<62 {
		return position{}, false
	}
	p = position{time: int64(binary.BigEndian.Uint64(b[1:9])), file: digest(b[9:17]), offset: int64(offset)} //nolint:gosec // see cursor
	return p, p.cursor() == s
}
