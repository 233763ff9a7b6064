package canonical

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sallyport/action"
	"sallyport/internal/jsonlex"
)

// maxPointer limits the pointer in an error, because names come from the
// caller.
const maxPointer = 256

// fault describes an invalid document. Its path is built from the inside out
// while the parser returns, so that valid documents do not pay for it.
type fault struct {
	what    string
	offset  int
	located bool     // offset is set
	path    []string // escaped, the innermost first
}

func lexicalFault(err error) *fault {
	var s *jsonlex.SyntaxError
	if errors.As(err, &s) {
		return &fault{what: s.What, offset: s.Offset, located: true}
	}
	return &fault{what: err.Error()}
}

func (f *fault) inIndex(i int) *fault {
	f.path = append(f.path, strconv.Itoa(i))
	return f
}

func (f *fault) inMember(name []byte) *fault {
	f.path = append(f.path, strings.NewReplacer("~", "~0", "/", "~1").Replace(string(name)))
	return f
}

func (f *fault) pointer() string {
	var b strings.Builder
	for _, segment := range slices.Backward(f.path) {
		if b.Len()+1+len(segment) > maxPointer {
			break
		}
		b.WriteByte('/')
		b.WriteString(segment)
	}
	return b.String()
}

func (f *fault) public() error {
	where := ""
	if f.located {
		where = fmt.Sprintf(" (byte %d)", f.offset)
	}
	return action.Errorf(action.ErrInvalid, "invalid_json", "%s", "This JSON cannot be used: "+f.what+where+".").WithField(f.pointer())
}
