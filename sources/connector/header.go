package connector

import (
	"sallyport/action"
	"sallyport/sources"
)

// checkHeaders refuses headers that no connector can have.
func (c *Config) checkHeaders() error {
	err := action.CheckHeaders(c.Header, c.Prefix, c.Headers)
	if err == nil {
		return nil
	}
	fault := *action.Public(err)
	fault.Code = sources.FaultConfig
	return &fault
}
