package mcpserver

import "bytes"

// asModern splits a result so that lead and rest together have what the
// stateless era wants and older sources do not say: what kind of result it is,
// and, of what was read, for how long and by whom it may be kept. Nothing else
// of it changes.
func asModern(method string, result []byte) (rest, lead []byte) {
	missing := ""
	kind := member(result, "resultType")
	if kind == nil {
		missing = `,"resultType":"complete"`
	}
	if method == methodRead && (kind == nil || string(kind) == `"complete"`) {
		if member(result, "ttlMs") == nil {
			missing += `,"ttlMs":0`
		}
		if member(result, "cacheScope") == nil {
			missing += `,"cacheScope":"private"`
		}
		result = keptPrivate(result)
	}
	if missing == "" {
		return result, nil
	}
	m := members{text: result}
	some := m.next()
	switch {
	case m.err != nil: // no object: not ours to mend
		return result, nil
	case !some:
		return []byte("}"), []byte("{" + missing[1:])
	}
	return result[bytes.IndexByte(result, '{')+1:], []byte("{" + missing[1:] + ",")
}

// keptPrivate says of what was read that nobody else may be given it: what a
// session may read is its own, whatever the source says of it.
func keptPrivate(result []byte) []byte {
	return replaced(result, "cacheScope", []byte(`"private"`))
}
