//go:build race

package mcpserver_test

// raced tells that the race detector is on, with which everything is larger.
const raced = true
