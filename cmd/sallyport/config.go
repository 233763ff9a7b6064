package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"
)

// loadConfig reads the optional configuration file: one YAML mapping from
// flag names to values. Flags and environment go before it.
func loadConfig(r io.Reader) (kong.Resolver, error) {
	values := map[string]any{}
	if err := yaml.NewDecoder(r).Decode(&values); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the configuration file is no YAML mapping of flags to values: %w", err)
	}
	return configFile(values), nil
}

// configFlag names the configuration file.
type configFlag string

// BeforeResolve has the file answer for flags that are not given.
func (configFlag) BeforeResolve(app *kong.Kong, ctx *kong.Context, trace *kong.Path) error {
	path, _ := ctx.FlagValue(trace.Flag).(configFlag)
	values, err := app.LoadConfig(string(path))
	if errors.As(err, new(*fs.PathError)) {
		return fmt.Errorf("the configuration file (--config): %w", err)
	}
	if err == nil {
		ctx.AddResolver(values)
	}
	return err
}

type configFile map[string]any

// Validate implements kong.Resolver: a name that no flag has is a mistake
// that would otherwise go unseen.
func (c configFile) Validate(app *kong.Application) error {
	var known []string
	_ = kong.Visit(app, func(n kong.Visitable, next kong.Next) error {
		if f, ok := n.(*kong.Flag); ok {
			known = append(known, f.Name)
		}
		return next(nil)
	})
	for name := range c {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the configuration file has %q, which is no flag; see sallyport serve --help", name)
		}
	}
	return nil
}

// Resolve implements kong.Resolver.
func (c configFile) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := c[flag.Name]
	if !ok {
		return nil, nil
	}
	if list, ok := value.([]any); ok {
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = fmt.Sprint(v)
		}
		return strings.Join(parts, ","), nil
	}
	return fmt.Sprint(value), nil
}
