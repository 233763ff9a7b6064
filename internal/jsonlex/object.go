package jsonlex

// Object returns raw when it is an object, and otherwise the object that the
// string raw spells out: models write params so. It looks into one string and
// no deeper; ok is false for everything else, for a string that is not Unicode,
// and for one that holds more than an object. raw must be one valid JSON value
// without space around it; the bytes of the object are as they were written.
func Object(raw []byte) (object []byte, ok bool) {
	switch {
	case len(raw) == 0:
		return nil, false
	case raw[0] == '{':
		return raw, true
	case raw[0] != '"' || len(raw) < 2:
		return nil, false
	}
	inner, whole := Unquote(nil, raw[1:len(raw)-1])
	i := Space(inner, 0)
	if !whole || i == len(inner) || inner[i] != '{' || Document(inner) != nil {
		return nil, false
	}
	return inner, true
}

// Kind says in words what kind of value raw is, such as "a string".
func Kind(raw []byte) string {
	i := Space(raw, 0)
	if i == len(raw) {
		return "nothing"
	}
	switch raw[i] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// NoObject says what raw is, for somebody who sent it where [Object] wants an
// object.
func NoObject(raw []byte) string {
	if Kind(raw) == "a string" {
		return "it is a string that does not hold one"
	}
	return "it is " + Kind(raw)
}
