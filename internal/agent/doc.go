// Package agent holds what the gateway gives agents and their clients before
// the first call: the system prompt of each session type, the names of models
// in their three forms, and the configuration with which a client connects to
// the gateway.
//
// It consists of data and pure functions. A prompt names a tool only if the
// caller reports that the session has it; a configuration names the variable
// that holds the session's token, and never contains a token.
package agent
