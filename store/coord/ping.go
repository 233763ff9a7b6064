package coord

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"
)

// Ping checks that the Valkey at a URL answers.
func Ping(ctx context.Context, url string) error {
	options, err := parseURL(url)
	if err != nil {
		return err
	}
	client, err := valkey.NewClient(options)
	if err != nil {
		return fmt.Errorf("connecting to Valkey: %w", err)
	}
	defer client.Close()
	return client.Do(ctx, client.B().Ping().Build()).Error()
}
