package llm

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sallyport/action"
	"sallyport/internal/token"
)

// operation is what a request asks of a provider.
type operation struct {
	generates bool   // the model answers, and tokens are spent
	counts    bool   // tokens of a prompt are counted, which costs nothing
	model     string // if the path names it; otherwise the body does
	path      string // at the provider
}

// operationOf returns the operation of a request, and false for one that is not passed
// on: the provider would act beyond answering, for example on files or on the account.
func operationOf(d action.ModelDialect, method, path string) (o operation, ok bool) {
	o.path = path
	post, list := method == http.MethodPost, method == http.MethodGet || method == http.MethodHead
	switch d {
	case action.DialectAnthropic:
		o.generates, o.counts = post && path == "/v1/messages", post && path == "/v1/messages/count_tokens"
		return o, o.generates || o.counts || list && isModels(path, "/v1/models")
	case action.DialectOpenAI:
		switch path {
		case "/v1/responses", "/v1/responses/compact", "/v1/chat/completions", "/v1/completions", "/v1/embeddings":
			o.generates = post
		}
		return o, o.generates || list && isModels(path, "/v1/models")
	case action.DialectGoogle:
		version, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		if version != "v1" && version != "v1beta" {
			return o, false
		}
		if list {
			return o, isModels("/"+rest, "/models")
		}
		name, verb, _ := strings.Cut(strings.TrimPrefix(rest, "models/"), ":")
		if !post || !strings.HasPrefix(rest, "models/") || name == "" || strings.Contains(name, "/") {
			return o, false
		}
		o.model = name
		o.generates = verb == "generateContent" || verb == "streamGenerateContent" || verb == "embedContent" || verb == "batchEmbedContents"
		o.counts = verb == "countTokens"
		return o, o.generates || o.counts
	}
	return o, false
}

// isModels reports whether a path is the list of models, or one of them.
func isModels(path, list string) bool {
	name, one := strings.CutPrefix(path, list+"/")
	return path == list || one && name != "" && !strings.Contains(name, "..")
}

// withModel returns the path of an operation with another model.
func (o *operation) withModel(model string) string {
	return strings.Replace(o.path, "models/"+o.model+":", "models/"+model+":", 1)
}

// bearer returns the session's token: each dialect has its own header for keys.
func bearer(h http.Header) (key string, d action.ModelDialect) {
	if key := h.Get("X-Api-Key"); key != "" {
		return key, action.DialectAnthropic
	}
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return key, action.DialectGoogle
	}
	return token.Bearer(h.Get("Authorization")), action.DialectOpenAI
}

// setKey adds the key of the provider.
func setKey(h http.Header, d action.ModelDialect, key string) {
	switch d {
	case action.DialectAnthropic:
		h.Set("X-Api-Key", key)
	case action.DialectGoogle:
		h.Set("X-Goog-Api-Key", key)
	case action.DialectOpenAI:
		h.Set("Authorization", "Bearer "+key)
	}
}

// passedHeader reports whether a header of a request reaches the provider. Everything
// else stays here: credentials, and headers that choose an account.
func passedHeader(name string) bool {
	switch name {
	case "Accept", "Content-Type", "User-Agent", "Openai-Beta", "Idempotency-Key", "X-Goog-Api-Client":
		return true
	}
	return strings.HasPrefix(name, "Anthropic-") || strings.HasPrefix(name, "X-Stainless-")
}

// hiddenHeader reports whether a header of a response stays here: it concerns the
// connection, or it names the account.
func hiddenHeader(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Set-Cookie", "Openai-Organization", "Openai-Project", "Anthropic-Organization-Id", "Alt-Svc", "Strict-Transport-Security":
		return true
	}
	return false
}

// writeError answers in the form of a dialect, so that clients show the message.
func writeError(w http.ResponseWriter, d action.ModelDialect, status int, code, message string, retryAfter time.Duration) {
	var body any
	switch d {
	case action.DialectAnthropic:
		body = map[string]any{"type": "error", "error": map[string]any{"type": anthropicType(status), "message": message}}
	case action.DialectGoogle:
		body = map[string]any{"error": map[string]any{"code": status, "message": message, "status": googleStatus(status)}}
	case action.DialectOpenAI:
		body = map[string]any{"error": map[string]any{"message": message, "type": openAIType(status), "param": nil, "code": code}}
	}
	raw, err := json.Marshal(body)
	if err != nil { // never: the body has strings and a number
		raw = []byte(`{}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Sallyport-Code", code)
	if retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(min(retryAfter, maxRetryAfter).Seconds()+.999)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the client may be gone
}

func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusBadRequest, http.StatusUnsupportedMediaType:
		return "invalid_request_error"
	}
	return "api_error"
}

func openAIType(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusForbidden:
		return "permission_error"
	}
	if status >= 500 {
		return "server_error"
	}
	return "invalid_request_error"
}

func googleStatus(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
		return "INVALID_ARGUMENT"
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return "UNAVAILABLE"
	}
	return "INTERNAL"
}
