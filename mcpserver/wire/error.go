package wire

import (
	"fmt"
	"net/http"
	"strconv"

	"sallyport/internal/jsonlex"
)

// MethodNotFound is the error for an unknown method.
func MethodNotFound(method string) *Error {
	return &Error{Code: codeMethodNotFound, Message: "There is no method " + strconv.Quote(Truncate(method, 64)) + "."}
}

// The error codes of JSON-RPC and MCP that the server uses.
const (
	codeParse              = -32700
	codeInvalidRequest     = -32600
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	codeHeaderMismatch     = -32020
	CodeUnsupportedVersion = -32022
	codeMethodNotFound     = -32601
	CodeMissingCapability  = -32021
	CodeNoResource         = -32002 // with sessions; the stateless protocol uses CodeInvalidParams
)

// Error is a JSON-RPC error with its HTTP status.
type Error struct {
	Status  int // zero: see Response.HTTPStatus
	Code    int
	Message string
	Data    []byte // raw; nil for none
}

// parseError is the error for a body that is not JSON.
func parseError(text string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeParse, Message: text}
}

// InvalidRequest is the error for JSON that is not a valid message.
func InvalidRequest(text string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeInvalidRequest, Message: text}
}

// HeaderMismatch is the error for headers that contradict the body.
func HeaderMismatch(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Code: codeHeaderMismatch, Message: fmt.Sprintf(format, args...)}
}

// InvalidParams is the error for params that the method cannot use.
func InvalidParams(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// InternalError hides the details of an unexpected error.
func InternalError() *Error {
	return &Error{Code: CodeInternal, Message: "Internal error of the gateway; its log has the details."}
}

// Raw returns the error object as JSON.
func (p *Error) Raw() []byte {
	b := append([]byte(`{"code":`), strconv.Itoa(p.Code)...)
	b = jsonlex.Quote(append(b, `,"message":`...), p.Message)
	if p.Data != nil {
		b = append(append(b, `,"data":`...), p.Data...)
	}
	return append(b, '}')
}

// statusOf returns the HTTP status that the stateless protocol requires for an
// error.
func statusOf(code int) int {
	switch code {
	case codeMethodNotFound:
		return http.StatusNotFound
	case CodeInvalidParams, CodeUnsupportedVersion, CodeMissingCapability, codeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
