package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"sallyport/api"
)

// NewRequest returns the request of an operation. Tags of the fields of in
// determine where they go, as package api describes; zero values of query
// parameters and headers, and a nil body, are left out.
func (c *Client) NewRequest(ctx context.Context, op *api.Operation, in any) (*http.Request, error) {
	p := parts{path: op.Path, query: url.Values{}, header: http.Header{}}
	if err := p.add(reflect.ValueOf(in)); err != nil {
		return nil, fmt.Errorf("%s %s: %w", op.Method, op.Path, err)
	}
	var body io.Reader
	if p.body != nil {
		body = bytes.NewReader(p.body)
	}
	request, err := http.NewRequestWithContext(ctx, op.Method, c.Base.String()+p.path, body)
	if err != nil {
		return nil, err
	}
	request.URL.RawQuery = p.query.Encode()
	request.Header = p.header
	if c.Key != "" {
		request.Header.Set("Authorization", "Bearer "+c.Key)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// parts collects the parts of a request.
type parts struct {
	path   string // with its parameters filled in
	query  url.Values
	header http.Header
	body   []byte // nil: none
}

func (p *parts) add(in reflect.Value) error {
	for i := range in.NumField() {
		field, value := in.Type().Field(i), in.Field(i)
		name, isPath := field.Tag.Lookup("path")
		query, isQuery := field.Tag.Lookup("query")
		header, isHeader := field.Tag.Lookup("header")
		query, _, _ = strings.Cut(query, ",") // the rest is the list format
		switch {
		case isPath:
			p.path = strings.ReplaceAll(p.path, "{"+name+"}", url.PathEscape(text(value)))
		case isQuery && !value.IsZero():
			p.query.Set(query, text(value))
		case isHeader && !value.IsZero():
			p.header.Set(header, text(value))
		case isQuery, isHeader:
		case field.Name == "Body":
			if value.Kind() == reflect.Pointer && value.IsNil() {
				continue
			}
			raw, err := json.Marshal(value.Interface())
			if err != nil {
				return err
			}
			p.body = raw
		case field.Anonymous:
			if err := p.add(value); err != nil {
				return err
			}
		}
	}
	return nil
}

// text formats a parameter; list values are joined by commas.
func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		return text(v.Elem())
	case reflect.Slice:
		all := make([]string, v.Len())
		for i := range all {
			all[i] = text(v.Index(i))
		}
		return strings.Join(all, ",")
	}
	return fmt.Sprint(v.Interface())
}
