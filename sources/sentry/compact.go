package sentry

type object = map[string]any

// asObject returns v as an object, or nil.
func asObject(v any) object {
	o, _ := v.(object)
	return o
}

// pick returns the non-empty members of those names.
func pick(from object, names ...string) object {
	out := object{}
	for _, n := range names {
		putNonEmpty(out, n, from[n])
	}
	return out
}

// putNonEmpty sets a member unless the value is empty.
func putNonEmpty(in object, name string, v any) {
	switch v := v.(type) {
	case nil:
		return
	case string:
		if v == "" {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	case object:
		if len(v) == 0 {
			return
		}
	}
	in[name] = v
}

// compactor compacts a response and records whether something was dropped.
type compactor struct{ cut bool }

// first returns at most n elements of a list, mapped by f. Elements that are
// not objects are dropped.
func (s *compactor) first(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for _, e := range list[:min(n, len(list))] {
		if o := asObject(e); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}

// last returns at most n elements from the end of a list, in reverse order.
func (s *compactor) last(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for i := len(list) - 1; i >= max(0, len(list)-n); i-- {
		if o := asObject(list[i]); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}
