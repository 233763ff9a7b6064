//go:build !race

package mcpserver_test

const raced = false
