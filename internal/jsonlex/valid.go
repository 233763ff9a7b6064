package jsonlex

// MaxDepth is how deep [Value] follows arrays and objects.
const MaxDepth = 1000

// Value checks the value at data[i], which is depth arrays and objects deep,
// and returns its end. Strings may hold what is not Unicode, and names may be
// there twice.
func Value(data []byte, i, depth int) (int, error) {
	if i < len(data) && (data[i] == '{' || data[i] == '[') {
		if depth >= MaxDepth {
			return i, syntaxError(i, "nesting that is too deep")
		}
		return container(data, i, depth+1)
	}
	return Scalar(data, i)
}

// container checks an array or an object.
func container(data []byte, i, depth int) (end int, err error) {
	object, closing := data[i] == '{', data[i]+2 // ']' and '}' come two after
	i = Space(data, i+1)
	if i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for {
		if object {
			if i, _, err = String(data, i); err != nil {
				return i, err
			}
			if i = Space(data, i); i == len(data) || data[i] != ':' {
				return i, syntaxError(i, "a missing colon")
			}
			i = Space(data, i+1)
		}
		if i, err = Value(data, i, depth); err != nil {
			return i, err
		}
		switch i = Space(data, i); {
		case i < len(data) && data[i] == closing:
			return i + 1, nil
		case i == len(data) || data[i] != ',':
			return i, syntaxError(i, "a missing comma or bracket")
		}
		i = Space(data, i+1)
	}
}

// Document checks that data is one value and nothing else.
func Document(data []byte) error {
	i, err := Value(data, Space(data, 0), 0)
	if err != nil {
		return err
	}
	if i = Space(data, i); i < len(data) {
		return syntaxError(i, "something after the end of the value")
	}
	return nil
}
