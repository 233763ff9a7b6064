package wire

import (
	"fmt"
	"net/http"
	"strconv"

	"sallyport/internal/jsonlex"
)

// TextResult is a tool result with a text and structured content.
func TextResult(text string, content []byte) Response {
	b := jsonlex.Quote([]byte(`{"content":[{"type":"text","text":`), text)
	b = append(append(b, `}],"structuredContent":`...), content...)
	return Response{Result: append(b, '}')}
}

// Response is a JSON-RPC response: a raw result or a raw error.
type Response struct {
	Result []byte
	Error  []byte
	status int // of HTTP, if nothing was sent yet; zero: see HTTPStatus

	// Text is the message of a failed tool result. Methods other than tools/call
	// have no failed results: AsError turns Text into an error with Code (zero:
	// CodeInternal) and raw Data.
	Text string
	Code int
	Data []byte
}

// AsError converts a failed tool result for a method other than tools/call.
func (m Response) AsError() Response {
	if m.Text == "" {
		return m
	}
	p := Error{Code: m.Code, Message: m.Text, Data: m.Data}
	if p.Code == 0 {
		p.Code = CodeInternal
	}
	return p.Response()
}

// Response returns the response that carries the error.
func (p *Error) Response() Response { return Response{Error: p.Raw(), status: p.Status} }

// HTTPStatus returns the HTTP status of the response.
func (m *Response) HTTPStatus(stateless bool) int {
	switch {
	case m.status != 0:
		return m.status
	case stateless && m.Error != nil:
		code, _ := strconv.Atoi(string(Member(m.Error, "code"))) // zero has no special status
		return statusOf(code)
	}
	return http.StatusOK
}

// ToolError is a tool result that tells the model what went wrong.
func ToolError(format string, args ...any) Response {
	text := fmt.Sprintf(format, args...)
	b := []byte(`{"content":[{"type":"text","text":`)
	b = jsonlex.Quote(b, text)
	return Response{Result: append(b, `}],"isError":true}`...), Text: text}
}
