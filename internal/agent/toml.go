package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sallyport/internal/jsonc"
)

// statement is a table header, or a key with its value, of a TOML document.
type statement struct {
	path       []string // from the root; of a header the table's
	table      []string // in which a key is
	header     bool
	list       bool // a header of an array of tables
	from, to   int  // value of a key, or a whole header
	endsAtLine int  // offset of the end of its last line, without the line break
}

// scanTOML returns the statements of a document. It checks only what an edit
// depends on: where keys, values and tables begin and end.
func scanTOML(text []byte) (all []statement, err error) {
	s := tomlScanner{text: text}
	var table []string
	for {
		s.skip(" \t\r\n")
		switch {
		case s.at == len(text):
			return all, nil
		case s.peek() == '#':
			s.line()
			continue
		}
		from := s.at
		st := statement{table: table, header: s.peek() == '['}
		if st.header {
			st.list = bytes.HasPrefix(text[s.at:], []byte("[["))
			brackets := 1
			if st.list {
				brackets = 2
			}
			s.at += brackets
			if st.path, err = s.key(); err != nil {
				return nil, err
			}
			if !bytes.HasPrefix(text[s.at:], bytes.Repeat([]byte("]"), brackets)) {
				return nil, s.fault("a table header does not end")
			}
			s.at += brackets
			table = st.path
		} else {
			key, err := s.key()
			if err != nil {
				return nil, err
			}
			if s.peek() != '=' {
				return nil, s.fault("a key has no value")
			}
			s.at++
			s.skip(" \t")
			from, st.path = s.at, slices.Concat(table, key)
			if err := s.value(); err != nil {
				return nil, err
			}
		}
		st.from, st.to = from, s.at
		s.skip(" \t\r")
		if c := s.peek(); c != 0 && c != '\n' && c != '#' {
			return nil, s.fault("more follows on the line")
		}
		s.line()
		st.endsAtLine = len(bytes.TrimRight(text[:s.at], "\r"))
		all = append(all, st)
	}
}

// tomlScanner is a position in a document.
type tomlScanner struct {
	text []byte
	at   int
}

func (s *tomlScanner) fault(problem string) error {
	return fmt.Errorf("is not valid TOML: line %d: %s", bytes.Count(s.text[:s.at], []byte("\n"))+1, problem)
}

// peek returns the next byte, or 0 at the end.
func (s *tomlScanner) peek() byte {
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

func (s *tomlScanner) skip(bytes string) {
	for s.at < len(s.text) && strings.IndexByte(bytes, s.text[s.at]) >= 0 {
		s.at++
	}
}

// line moves to the end of the line.
func (s *tomlScanner) line() {
	for s.at < len(s.text) && s.text[s.at] != '\n' {
		s.at++
	}
}

// key reads a key and the blanks around it; dots separate its parts.
func (s *tomlScanner) key() (path []string, err error) {
	for {
		s.skip(" \t")
		from := s.at
		if c := s.peek(); c == '"' || c == '\'' {
			if err := s.quoted(); err != nil {
				return nil, err
			}
			path = append(path, tomlString(s.text[from:s.at]))
		} else {
			for s.at < len(s.text) && (s.text[s.at] == '_' || s.text[s.at] == '-' || s.text[s.at] >= '0' && s.text[s.at] <= '9' || s.text[s.at]|0x20 >= 'a' && s.text[s.at]|0x20 <= 'z') {
				s.at++
			}
			if s.at == from {
				return nil, s.fault("a key is expected")
			}
			path = append(path, string(s.text[from:s.at]))
		}
		s.skip(" \t")
		if s.peek() != '.' {
			return path, nil
		}
		s.at++
	}
}

// quoted moves behind a string, which may span lines if it has three quotes.
func (s *tomlScanner) quoted() error {
	quote := s.text[s.at : s.at+1]
	if three := bytes.Repeat(quote, 3); bytes.HasPrefix(s.text[s.at:], three) {
		quote = three
	}
	start := *s
	for s.at += len(quote); s.at < len(s.text); s.at++ {
		switch {
		case s.text[s.at] == '\\' && quote[0] == '"' && s.at+1 < len(s.text):
			s.at++
		case bytes.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			for len(quote) == 3 && s.peek() == quote[0] { // a quote before the closing ones
				s.at++
			}
			return nil
		case s.text[s.at] == '\n' && len(quote) == 1:
			return start.fault("a string does not end on its line")
		}
	}
	return start.fault("a string does not end")
}

// value moves behind a value.
func (s *tomlScanner) value() error {
	start := *s
	for depth := 0; ; {
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			if err := s.quoted(); err != nil {
				return err
			}
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == '#' && depth > 0:
			s.line()
			continue
		case (c == 0 || c == '\n' || c == '#') && depth == 0:
			s.at = start.at + len(bytes.TrimRight(s.text[start.at:s.at], " \t\r"))
			if s.at == start.at {
				return start.fault("a key has no value")
			}
			return nil
		case c == 0:
			return start.fault("a value does not end")
		}
		s.at++
	}
}

// tomlString decodes a string of one line.
func tomlString(raw []byte) string {
	if raw[0] == '\'' {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	_ = json.Unmarshal(raw, &text) // of escapes, JSON lacks only \U, \e and \x
	return text
}

// editTOML sets keys of a table and leaves all else unchanged. It rejects a
// document that has the table in another form than under its own header.
func editTOML(document []byte, table []string, edits []jsonc.Edit) ([]byte, error) {
	all, err := scanTOML(document)
	if err != nil {
		return nil, err
	}
	newline := "\n"
	if bytes.Contains(document, []byte("\r\n")) {
		newline = "\r\n"
	}
	end := -1 // where further keys go
	current := map[string]statement{}
	for _, st := range all {
		switch {
		case st.header && !st.list && slices.Equal(st.path, table):
			end = st.endsAtLine
		case st.header && (!st.list || !hasPrefix(table, st.path)): // another table
		case !st.header && slices.Equal(st.table, table):
			current[strings.Join(st.path[len(table):], ".")] = st
			end = st.endsAtLine
		case !st.header && hasPrefix(st.table, table): // a key of a table below it
		case hasPrefix(table, st.path), hasPrefix(st.path, table):
			return nil, fmt.Errorf("%[1]s is not under a header of its own; write it as [%[1]s]", strings.Join(table, "."))
		}
	}
	type splice struct {
		from, to int
		text     string
	}
	var splices []splice
	added := ""
	for _, e := range edits {
		key := e.Path[len(table)]
		switch st, exists := current[key]; {
		case !exists:
			added += newline + key + " = " + tomlValue(e.Value)
		case e.Kind != jsonc.Default:
			splices = append(splices, splice{st.from, st.to, tomlValue(e.Value)})
		}
	}
	if end < 0 {
		text := bytes.TrimRight(document, "\r\n\t ")
		end = len(document)
		added = "[" + strings.Join(table, ".") + "]" + added + newline
		if len(text) > 0 {
			added = strings.Repeat(newline, max(0, 2-bytes.Count(document[len(text):], []byte("\n")))) + added
		}
	}
	splices = append(splices, splice{end, end, added})
	slices.SortStableFunc(splices, func(a, b splice) int { return a.from - b.from })
	var out bytes.Buffer
	at := 0
	for _, p := range splices {
		out.Write(document[at:p.from])
		out.WriteString(p.text)
		at = p.to
	}
	out.Write(document[at:])
	return out.Bytes(), nil
}

func hasPrefix(path, prefix []string) bool {
	return len(path) >= len(prefix) && slices.Equal(path[:len(prefix)], prefix)
}

// tomlValue encodes a string or a boolean, in which JSON and TOML agree.
func tomlValue(v any) string {
	raw, _ := json.Marshal(v) // cannot fail
	return string(raw)
}

// findTOML returns the strings and booleans of a table, or nil if there is none.
func findTOML(document []byte, table []string) (map[string]any, error) {
	all, err := scanTOML(document)
	if err != nil {
		return nil, err
	}
	var found map[string]any
	for _, st := range all {
		if slices.Equal(st.path, table) && st.header && found == nil {
			found = map[string]any{}
		}
		if st.header || !slices.Equal(st.table, table) || len(st.path) != len(table)+1 {
			continue
		}
		raw := document[st.from:st.to]
		var value any
		switch {
		case raw[0] == '"' || raw[0] == '\'':
			value = tomlString(raw)
		case json.Unmarshal(raw, &value) != nil:
			value = string(raw)
		}
		found[st.path[len(table)]] = value
	}
	return found, nil
}
