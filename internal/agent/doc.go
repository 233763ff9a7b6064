// Package agent is what the gateway tells agents and their clients before the
// first call: the system prompt of each type of session, the names of models
// in the three forms that are in use, and the configuration with which a client
// reaches the gateway.
//
// It is data and pure functions. A prompt names a tool only when its caller
// says that the tool is there; a configuration holds the name of the variable
// that has the session's token, and never a token.
package agent
