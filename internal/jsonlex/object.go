package jsonlex

// Object returns raw if it is an object, or the object that the string raw
// contains, because models often encode params as a string. It decodes one
// level only. ok is false for other values, for strings with invalid Unicode,
// and for strings with more than an object. raw must be one valid JSON value
// without surrounding white space; the bytes of the object are not changed.
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

// Kind describes the type of raw in words, such as "a string".
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

// NoObject explains to the sender why raw is not what [Object] accepts.
func NoObject(raw []byte) string {
	if Kind(raw) == "a string" {
		return "it is a string that does not hold one"
	}
	return "it is " + Kind(raw)
}
