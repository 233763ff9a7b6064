package sentry

type object = map[string]any

// as returns v as an object; nil: it is none.
func as(v any) object {
	o, _ := v.(object)
	return o
}

// pick returns those members that say something.
func pick(from object, names ...string) object {
	out := object{}
	for _, n := range names {
		put(out, n, from[n])
	}
	return out
}

// put sets a member unless the value is empty.
func put(in object, name string, v any) {
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

// shortened is an answer being compacted, which knows whether something was
// left out.
type shortened struct{ cut bool }

// first returns at most n elements of a list, each made by f. Those that are no
// objects are left out.
func (s *shortened) first(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for _, e := range list[:min(n, len(list))] {
		if o := as(e); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}

// last returns at most n elements from the end of a list, the last one first.
func (s *shortened) last(v any, n int, f func(object) object) (out []any) {
	list, _ := v.([]any)
	for i := len(list) - 1; i >= max(0, len(list)-n); i-- {
		if o := as(list[i]); o != nil {
			out = append(out, f(o))
		}
	}
	s.cut = s.cut || len(list) > n
	return out
}
