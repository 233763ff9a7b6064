package jsonlex

// MaxDepth is the maximum nesting that [Value] accepts.
const MaxDepth = 1000

// Value validates the value at data[i], nested depth levels deep, and returns
// its end. It allows invalid Unicode in strings and duplicate names.
func Value(data []byte, i, depth int) (int, error) {
	if i < len(data) && (data[i] == '{' || data[i] == '[') {
		if depth >= MaxDepth {
			return i, syntaxError(i, "nesting that is too deep")
		}
		return container(data, i, depth+1)
	}
	return Scalar(data, i)
}

// container validates an array or an object.
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

// Document validates that data is exactly one value.
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
