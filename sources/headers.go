package sources

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// HeaderParam is a param that its tool wants repeated in a header of the
// request (x-mcp-header).
type HeaderParam struct {
	Header string   // without the Mcp-Param- before it
	Path   []string // of property names
}

// HeaderParams returns the params that an input schema wants in headers. The
// error says how it asks wrongly.
func HeaderParams(schema json.RawMessage) ([]HeaderParam, error) {
	if !strings.Contains(string(schema), "x-mcp-header") {
		return nil, nil
	}
	doc, err := decode(schema)
	if err != nil {
		return nil, err
	}
	var list []HeaderParam
	err = headerParams(doc, nil, &list)
	slices.SortFunc(list, func(a, b HeaderParam) int { return strings.Compare(a.Header, b.Header) })
	return list, err
}

func headerParams(schema any, path []string, list *[]HeaderParam) error {
	obj, _ := schema.(map[string]any)
	properties, _ := obj["properties"].(map[string]any)
	for name, property := range properties {
		at := append(slices.Clone(path), name)
		if err := headerParam(property, at, list); err != nil {
			return err
		}
		if err := headerParams(property, at, list); err != nil {
			return err
		}
	}
	return nil
}

func headerParam(property any, path []string, list *[]HeaderParam) error {
	obj, _ := property.(map[string]any)
	want, ok := obj["x-mcp-header"]
	if !ok {
		return nil
	}
	where := strings.Join(path, ".")
	header, _ := want.(string)
	switch kind := obj["type"]; {
	case kind != "string" && kind != "integer" && kind != "boolean":
		return fmt.Errorf("x-mcp-header at %.100q is only for strings, integers and booleans", where)
	case !token(header):
		return fmt.Errorf("x-mcp-header at %.100q is no name of a header", where)
	}
	for _, other := range *list {
		if strings.EqualFold(other.Header, header) {
			return fmt.Errorf("x-mcp-header %.100q is there twice", header)
		}
	}
	*list = append(*list, HeaderParam{Header: header, Path: path})
	return nil
}

// token reports whether s can be the name of a header.
func token(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 128
}
